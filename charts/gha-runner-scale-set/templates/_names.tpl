{{/*
Names of the objects. The release's name is the scale set's unless runnerScaleSetName says otherwise;
nameOverride and fullnameOverride never had an effect in this chart.

Underscores: a Kubernetes name may not have one, a Role's may, and a label's value may. They become
dashes where they must and are kept where they always were, so that an upgrade finds what is there.
*/}}

{{/* Name of the scale set: what workflows write in runs-on. */}}
{{- define "scale-set.name" -}}
{{- include "scale-set.text" .Values.runnerScaleSetName | default .Release.Name -}}
{{- end -}}

{{/* Namespace of every object. */}}
{{- define "scale-set.namespace" -}}
{{- include "scale-set.text" .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* Name of the AutoscalingRunnerSet. */}}
{{- define "scale-set.object-name" -}}
{{- include "scale-set.name" . | replace "_" "-" -}}
{{- end -}}

{{/* Name of the Secret that is made from the values. */}}
{{- define "scale-set.github-secret-name" -}}
{{- printf "%s-gha-rs-github-secret" (include "scale-set.object-name" .) -}}
{{- end -}}

{{/* ServiceAccount of runner pods that need nothing from Kubernetes. */}}
{{- define "scale-set.no-permission-name" -}}
{{- printf "%s-gha-rs-no-permission" (include "scale-set.object-name" .) -}}
{{- end -}}

{{/* ServiceAccount of runner pods in the kubernetes modes. */}}
{{- define "scale-set.kube-mode-account-name" -}}
{{- printf "%s-gha-rs-kube-mode" (include "scale-set.object-name" .) -}}
{{- end -}}

{{/* Role and RoleBinding of that account: here underscores stay. */}}
{{- define "scale-set.kube-mode-role-name" -}}
{{- printf "%s-gha-rs-kube-mode" (include "scale-set.name" .) -}}
{{- end -}}

{{/* Role and RoleBinding of the controller in this namespace: here underscores stay. */}}
{{- define "scale-set.manager-role-name" -}}
{{- printf "%s-gha-rs-manager" (include "scale-set.name" .) -}}
{{- end -}}
