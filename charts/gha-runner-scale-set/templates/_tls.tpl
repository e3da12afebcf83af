{{/*
GitHub's server has a certificate that the runner image does not know. The controller and the listener read
the ConfigMap themselves (spec.githubServerTLS); the runner gets it as a file, if told where to mount it.
Sidecars and init containers get nothing.
*/}}

{{/* "true" where the runner gets the file. */}}
{{- define "scale-set.mounts-certificate" -}}
{{- if include "scale-set.text" ((.Values.githubServerTLS | default dict).runnerMountPath) }}true{{ end -}}
{{- end -}}

{{/* Name and key of the ConfigMap. Answers JSON. */}}
{{- define "scale-set.certificate-source" -}}
{{- $source := ((.Values.githubServerTLS | default dict).certificateFrom | default dict).configMapKeyRef | default dict -}}
{{- dict "name" (include "scale-set.text" $source.name) "key" (include "scale-set.text" $source.key) | toJson -}}
{{- end -}}

{{/* Path of the file in the runner. */}}
{{- define "scale-set.certificate-path" -}}
{{- $source := include "scale-set.certificate-source" . | fromJson -}}
{{- printf "%s/%s" (include "scale-set.text" .Values.githubServerTLS.runnerMountPath) $source.key | clean -}}
{{- end -}}

{{/* Both variables: Node.js reads the one, the runner's start script the other. YAML list, as below. */}}
{{- define "scale-set.tls-env" -}}
{{- if include "scale-set.mounts-certificate" . -}}
- name: NODE_EXTRA_CA_CERTS
  value: {{ include "scale-set.certificate-path" . | quote }}
- name: RUNNER_UPDATE_CA_CERTS
  value: "1"
{{- end -}}
{{- end -}}

{{- define "scale-set.tls-mounts" -}}
{{- if include "scale-set.mounts-certificate" . -}}
{{- $source := include "scale-set.certificate-source" . | fromJson -}}
- name: github-server-tls-cert
  mountPath: {{ include "scale-set.certificate-path" . | quote }}
  subPath: {{ $source.key | quote }}
{{- end -}}
{{- end -}}

{{- define "scale-set.tls-volumes" -}}
{{- if include "scale-set.mounts-certificate" . -}}
{{- $source := include "scale-set.certificate-source" . | fromJson -}}
- name: github-server-tls-cert
  configMap:
    name: {{ $source.name | quote }}
    items:
      - key: {{ $source.key | quote }}
        path: {{ $source.key | quote }}
{{- end -}}
{{- end -}}

{{/* "true" with a key that the chart knows: an unknown one alone must not ask for a certificate. */}}
{{- define "scale-set.has-tls" -}}
{{- if pick (.Values.githubServerTLS | default dict) "certificateFrom" "runnerMountPath" }}true{{ end -}}
{{- end -}}
