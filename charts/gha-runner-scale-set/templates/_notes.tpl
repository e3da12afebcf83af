{{/*
What somebody who has just installed should know about the values: nothing here stops an installation.
Each line stands alone; no line if there is nothing to say.
*/}}
{{- define "scale-set.remarks" -}}
{{- range $path := list "minRunners" "maxRunners" -}}
{{- $text := include "scale-set.text" (index $.Values $path) | trim -}}
{{- $count := include "scale-set.count" $text -}}
{{- if contains "." $text }}
- {{ $path }} {{ $text }} was cut to {{ $count }}.
{{- end -}}
{{- end -}}
{{- if eq (include "scale-set.count" .Values.maxRunners) "0" }}
- maxRunners is 0: this set never runs a job.
{{- end -}}
{{- $vault := .Values.keyVault | default dict -}}
{{- if and $vault (not (include "scale-set.text" $vault.type)) }}
- keyVault has no type and is not used.
{{- end -}}
{{- if and (include "scale-set.text" $vault.type) (kindIs "map" .Values.githubConfigSecret) }}
- keyVault is used, and the credentials in githubConfigSecret are not: the vault is asked for an item
  named {{ include "scale-set.config-secret" . }}. Set githubConfigSecret to the name of your item.
{{- end -}}
{{- $mode := .Values.containerMode | default dict -}}
{{- if and $mode.kubernetesModeWorkVolumeClaim (ne (include "scale-set.mode" .) "kubernetes") }}
- containerMode.kubernetesModeWorkVolumeClaim is only used with containerMode.type kubernetes.
{{- end -}}
{{- if and $mode.kubernetesModeAdditionalRoleRules (not (include "scale-set.makes-kube-mode-account" .)) }}
- containerMode.kubernetesModeAdditionalRoleRules is not used: no Role is made for the runners.
{{- end -}}
{{- end -}}
