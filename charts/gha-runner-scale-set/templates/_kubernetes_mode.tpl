{{/*
Container modes kubernetes and kubernetes-novolume: the runner asks Kubernetes for a pod for each job, by
hooks that are part of the runner's image. With a volume both pods share the work folder; without one the
hooks copy it over.
*/}}

{{/* What the runner needs for the hooks. YAML list; call with (dict "mode" MODE "image" IMAGE). */}}
{{- define "scale-set.kubernetes-mode-env" -}}
- name: ACTIONS_RUNNER_CONTAINER_HOOKS
  value: {{ ternary "/home/runner/k8s/index.js" "/home/runner/k8s-novolume/index.js" (eq .mode "kubernetes") }}
- name: ACTIONS_RUNNER_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER
  value: "true"
{{- if eq .mode "kubernetes-novolume" }}
- name: ACTIONS_RUNNER_IMAGE
  value: {{ .image | quote }}
{{- end }}
{{- end -}}

{{- define "scale-set.kubernetes-mode-mounts" -}}
- name: work
  mountPath: /home/runner/_work
{{- end -}}

{{/* The volume that runner and job pod share: one claim for each runner, gone with its pod. YAML list. */}}
{{- define "scale-set.kubernetes-mode-volumes" -}}
- name: work
  ephemeral:
    volumeClaimTemplate:
      spec:
        {{- toYaml .Values.containerMode.kubernetesModeWorkVolumeClaim | nindent 8 }}
{{- end -}}

{{/* What the hooks do in Kubernetes. YAML list of Role rules. */}}
{{- define "scale-set.kubernetes-mode-rules" -}}
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["get", "list", "create", "delete"]
- apiGroups: [""]
  resources: ["pods/exec"]
  verbs: ["get", "create"]
- apiGroups: [""]
  resources: ["pods/log"]
  verbs: ["get", "list", "watch"]
{{- if eq (include "scale-set.mode" .) "kubernetes" }}
- apiGroups: ["batch"]
  resources: ["jobs"]
  verbs: ["get", "list", "create", "delete"]
{{- end }}
- apiGroups: [""]
  resources: ["secrets"]
  verbs: ["get", "list", "create", "delete"]
{{- with .Values.containerMode.kubernetesModeAdditionalRoleRules }}
{{ toYaml . }}
{{- end }}
{{- end -}}
