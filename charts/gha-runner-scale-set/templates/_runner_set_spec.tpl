{{/*
Sections of the AutoscalingRunnerSet's spec that need more than copying. Each answers YAML, or nothing where
the section is unset: an absent section is the controller's to fill in.
*/}}

{{/* All slashes at the end go: GitHub knows no path that ends in one. */}}
{{- define "scale-set.config-url" -}}
{{- include "scale-set.text" .Values.githubConfigUrl | trim | regexFind "(?s)^.*[^/]" -}}
{{- end -}}

{{/* Name of the Secret with the credentials, or of the item in the vault. */}}
{{- define "scale-set.config-secret" -}}
{{- if kindIs "map" .Values.githubConfigSecret -}}
{{- include "scale-set.github-secret-name" . -}}
{{- else -}}
{{- include "scale-set.text" .Values.githubConfigSecret -}}
{{- end -}}
{{- end -}}

{{/* One proxy for one scheme. Call with its map. */}}
{{- define "scale-set.proxy-server" -}}
{{- with include "scale-set.text" .url }}
url: {{ quote . }}
{{- end }}
{{- with include "scale-set.text" .credentialSecretRef }}
credentialSecretRef: {{ quote . }}
{{- end }}
{{- end -}}

{{/* Proxies on the way to GitHub. Call with a map such as values `proxy`. */}}
{{- define "scale-set.proxy" -}}
{{- with include "scale-set.proxy-server" (.http | default dict) | trim }}
http:
  {{- nindent 2 . }}
{{- end }}
{{- with include "scale-set.proxy-server" (.https | default dict) | trim }}
https:
  {{- nindent 2 . }}
{{- end }}
{{- with .noProxy }}
noProxy:
  {{- range . }}
  - {{ include "scale-set.text" . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "scale-set.github-server-tls" -}}
{{- if include "scale-set.has-tls" . -}}
certificateFrom:
  configMapKeyRef:
    {{- include "scale-set.certificate-source" . | fromJson | toYaml | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* The Azure Key Vault of the values in the spelling of the resource. The values may use its spelling or
     the one with underscores that examples had. Answers JSON; what is missing is missing. */}}
{{- define "scale-set.azure-key-vault" -}}
{{- $values := .Values.keyVault | default dict -}}
{{- $given := $values.azureKeyVault | default $values.azure_key_vault | default dict -}}
{{- $vault := dict -}}
{{- range $key, $other := dict "url" "url" "tenantId" "tenant_id" "clientId" "client_id" "certificatePath" "certificate_path" -}}
{{- with include "scale-set.text" (index $given $key) | default (include "scale-set.text" (index $given $other)) -}}
{{- $_ := set $vault $key . -}}
{{- end -}}
{{- end -}}
{{- toJson $vault -}}
{{- end -}}

{{- define "scale-set.vault-config" -}}
{{- $values := .Values.keyVault | default dict -}}
{{- with include "scale-set.text" $values.type -}}
type: {{ quote . }}
azureKeyVault:
  {{- include "scale-set.azure-key-vault" $ | fromJson | toYaml | nindent 2 }}
{{- with $values.proxy }}
proxy:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Labels and annotations for one kind of object that the controller makes. Call with (dict "root" $
     "meta" KEY). Only halves that are not empty; nothing if both are. */}}
{{- define "scale-set.generated-meta" -}}
{{- $meta := include "scale-set.resource-meta" . | fromJson -}}
{{- with $meta.labels }}
labels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $meta.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The annotations by which the controller finds the objects of this chart when the runner set is deleted.
     JSON, only those that are made. */}}
{{- define "scale-set.cleanup-annotations" -}}
{{- $prefix := "actions.github.com/cleanup-" -}}
{{- $all := dict -}}
{{- $_ := set $all (print $prefix "manager-role-binding") (include "scale-set.manager-role-name" .) -}}
{{- $_ := set $all (print $prefix "manager-role-name") (include "scale-set.manager-role-name" .) -}}
{{- if kindIs "map" .Values.githubConfigSecret -}}
{{- $_ := set $all (print $prefix "github-secret-name") (include "scale-set.github-secret-name" .) -}}
{{- end -}}
{{- if include "scale-set.makes-no-permission-account" . -}}
{{- $_ := set $all (print $prefix "no-permission-service-account-name") (include "scale-set.no-permission-name" .) -}}
{{- end -}}
{{- if include "scale-set.makes-kube-mode-account" . -}}
{{- $_ := set $all (print $prefix "kubernetes-mode-role-binding-name") (include "scale-set.kube-mode-role-name" .) -}}
{{- $_ := set $all (print $prefix "kubernetes-mode-role-name") (include "scale-set.kube-mode-role-name" .) -}}
{{- $_ := set $all (print $prefix "kubernetes-mode-service-account-name") (include "scale-set.kube-mode-account-name" .) -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}
