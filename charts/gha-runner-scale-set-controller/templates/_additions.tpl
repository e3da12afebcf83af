{{/*
What this chart adds to ARC's objects, each behind its switch in .Values.additions. Where the
user says something else, the user's word stands.
*/}}

{{/* The pod's security context: enough for the Pod Security level "restricted". No user id: the
image has one, and some clusters assign their own. */}}
{{- define "gha-rs-controller.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext | default dict }}
{{- if (.Values.additions).restrictedSecurity }}
{{- $ours := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- $context = merge (deepCopy $context) $ours }}
{{- end }}
{{- if $context }}{{ toYaml $context }}{{ end }}
{{- end }}

{{- define "gha-rs-controller.securityContext" -}}
{{- $context := .Values.securityContext | default dict }}
{{- if (.Values.additions).restrictedSecurity }}
{{- $ours := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
{{- $context = merge (deepCopy $context) $ours }}
{{- end }}
{{- if $context }}{{ toYaml $context }}{{ end }}
{{- end }}

{{/* The user's resources replace ours as a whole: half of each could ask for more than the limit. */}}
{{- define "gha-rs-controller.resources" -}}
{{- if .Values.resources }}{{ toYaml .Values.resources }}
{{- else if (.Values.additions).resources -}}
requests:
  cpu: 50m
  memory: 128Mi
{{- end }}
{{- end }}

{{- define "gha-rs-controller.topologySpreadConstraints" -}}
{{- if .Values.topologySpreadConstraints }}{{ toYaml .Values.topologySpreadConstraints }}
{{- else if and (.Values.additions).topologySpread (include "gha-rs-controller.elects" .) }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "gha-rs-controller.selectorLabels" $ | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the manager is told by the environment: another image does not know it and reads past it. */}}
{{- define "gha-rs-controller.ownEnv" -}}
{{- $additions := .Values.additions | default dict }}
{{- if $additions.listenerSecurity }}
- name: RUNNERSCALE_LISTENER_SECURITY
  value: restricted
{{- end }}
{{- if $additions.listenerResources }}
- name: RUNNERSCALE_LISTENER_RESOURCES
  value: '{"requests":{"cpu":"20m","memory":"64Mi"}}'
{{- end }}
{{- end }}

{{/* The right to write Events, which tell people what blocks a runner. */}}
{{- define "gha-rs-controller.eventRules" -}}
{{- if (.Values.additions).events }}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
{{- end }}
{{- end }}
