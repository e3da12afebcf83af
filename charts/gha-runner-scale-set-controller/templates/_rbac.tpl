{{/*
Bindings, and the rules that stand in more than one role. A rule is a line: group, what, verbs.
*/}}

{{- define "gha-rs-controller.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "gha-rs-controller.account" . | quote }}
    namespace: {{ include "gha-rs-controller.namespace" . | quote }}
{{- end }}

{{/* A Role and its binding of the same name. Context: root, name, namespace, rules. */}}
{{- define "gha-rs-controller.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name | quote }}
  namespace: {{ .namespace | quote }}
  {{- include "gha-rs-controller.rbacLabels" .root }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name | quote }}
  namespace: {{ .namespace | quote }}
  {{- include "gha-rs-controller.rbacLabels" .root }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name | quote }}
{{ include "gha-rs-controller.subjects" .root }}
{{- end }}
