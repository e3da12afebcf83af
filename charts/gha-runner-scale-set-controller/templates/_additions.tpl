{{/*
What this chart adds to ARC's objects, each behind its switch in .Values.additions. Where the
user says something else, the user's word stands.
*/}}

{{/* What the user gave, and of ours what is not in it, one level down. Sprig's merge is not used:
it takes a `false` of the user's for nothing. Context: given, ours. */}}
{{- define "gha-rs-controller.filled" -}}
{{- $result := deepCopy (.given | default dict) }}
{{- range $key, $value := .ours }}
{{- $given := get $result $key }}
{{- if not (hasKey $result $key) }}
{{- $_ := set $result $key $value }}
{{- else if and (kindIs "map" $value) (kindIs "map" $given) }}
{{- range $inner, $default := $value }}
{{- if not (hasKey $given $inner) }}{{- $_ := set $given $inner $default }}{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if $result }}{{ toYaml $result }}{{ end }}
{{- end }}

{{/* Enough for the Pod Security level "restricted". No user id: the image has one, and some
clusters assign their own. Who asks for root gets no runAsNonRoot: no kubelet would start both. */}}
{{- define "gha-rs-controller.podSecurityContext" -}}
{{- $ours := dict }}
{{- if (.Values.additions).restrictedSecurity }}
{{- $_ := set $ours "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- $users := list (include "gha-rs-controller.text" (.Values.podSecurityContext).runAsUser) (include "gha-rs-controller.text" (.Values.securityContext).runAsUser) }}
{{- if not (has "0" $users) }}{{ $_ := set $ours "runAsNonRoot" true }}{{ end }}
{{- end }}
{{- include "gha-rs-controller.filled" (dict "given" .Values.podSecurityContext "ours" $ours) }}
{{- end }}

{{/* The API server refuses allowPrivilegeEscalation false beside the two ways to have everything. */}}
{{- define "gha-rs-controller.securityContext" -}}
{{- $given := .Values.securityContext | default dict }}
{{- $ours := dict }}
{{- if (.Values.additions).restrictedSecurity }}
{{- $ours = dict "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
{{- if not (or $given.privileged (has "SYS_ADMIN" (($given.capabilities).add | default list))) }}
{{- $_ := set $ours "allowPrivilegeEscalation" false }}
{{- end }}
{{- end }}
{{- include "gha-rs-controller.filled" (dict "given" $given "ours" $ours) }}
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
{{- $flags := .Values.flags | default dict }}
{{- if $additions.listenerSecurity }}
- name: RUNNERSCALE_LISTENER_SECURITY
  value: restricted
{{- end }}
{{- if $additions.listenerResources }}
- name: RUNNERSCALE_LISTENER_RESOURCES
  value: '{"requests":{"cpu":"20m","memory":"64Mi"}}'
{{- end }}
{{- range $key := list "autoscalingRunnerSet" "autoscalingListener" "ephemeralRunnerSet" "ephemeralRunner" }}
{{- with include "gha-rs-controller.number" (get $flags (printf "%sMaxConcurrentReconciles" $key)) }}
- name: RUNNERSCALE_{{ snakecase $key | upper }}_MAX_CONCURRENT_RECONCILES
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The right to write Events, which tell people what blocks a runner. */}}
{{- define "gha-rs-controller.eventRules" -}}
{{- if (.Values.additions).events }}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
{{- end }}
{{- end }}
