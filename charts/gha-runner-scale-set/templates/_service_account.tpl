{{/*
Which ServiceAccount the runner pods have, and which accounts this chart makes: the user's own if one is
named; else one with the rights of the kubernetes modes, or one without any right.
*/}}

{{- define "scale-set.given-account-name" -}}
{{- include "scale-set.text" (((.Values.template | default dict).spec | default dict).serviceAccountName) -}}
{{- end -}}

{{/* "true" where account, Role and RoleBinding of the kubernetes modes are made. */}}
{{- define "scale-set.makes-kube-mode-account" -}}
{{- if and (include "scale-set.in-kubernetes-mode" .) (not (include "scale-set.given-account-name" .)) }}true{{ end -}}
{{- end -}}

{{/* "true" where the account without rights is made. */}}
{{- define "scale-set.makes-no-permission-account" -}}
{{- if not (or (include "scale-set.in-kubernetes-mode" .) (include "scale-set.given-account-name" .)) }}true{{ end -}}
{{- end -}}

{{/* The account of the runner pods. */}}
{{- define "scale-set.runner-account-name" -}}
{{- if include "scale-set.makes-kube-mode-account" . -}}
{{- include "scale-set.kube-mode-account-name" . -}}
{{- else if include "scale-set.makes-no-permission-account" . -}}
{{- include "scale-set.no-permission-name" . -}}
{{- else -}}
{{- include "scale-set.given-account-name" . -}}
{{- end -}}
{{- end -}}
