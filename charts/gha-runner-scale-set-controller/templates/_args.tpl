{{/*
The manager's command line, in the order that ARC's chart has it. Nothing here may be unknown to
ARC's image: what is only ours goes by the environment ("gha-rs-controller.ownEnv").
*/}}
{{- define "gha-rs-controller.args" -}}
{{- $flags := .Values.flags | default dict }}
{{- $metrics := .Values.metrics | default dict }}
- --auto-scaling-runner-set-only
{{- if include "gha-rs-controller.elects" . }}
- --enable-leader-election
- {{ printf "--leader-election-id=%s" (include "gha-rs-controller.fullname" .) | quote }}
{{- end }}
{{- range .Values.imagePullSecrets }}
- {{ printf "--auto-scaler-image-pull-secrets=%s" .name | quote }}
{{- end }}
{{- with $flags.logLevel }}
- {{ printf "--log-level=%s" . | quote }}
{{- end }}
{{- with $flags.logFormat }}
- {{ printf "--log-format=%s" . | quote }}
{{- end }}
{{- with $flags.watchSingleNamespace }}
- {{ printf "--watch-single-namespace=%s" . | quote }}
{{- end }}
{{- with include "gha-rs-controller.number" $flags.runnerMaxConcurrentReconciles }}
- {{ printf "--runner-max-concurrent-reconciles=%s" . | quote }}
{{- end }}
- {{ printf "--listener-metrics-addr=%s" (include "gha-rs-controller.wantsMetrics" . | empty | ternary "0" ($metrics.listenerAddr | default "")) | quote }}
- {{ printf "--listener-metrics-endpoint=%s" ($metrics.listenerEndpoint | default "") | quote }}
- {{ printf "--metrics-addr=%s" ($metrics.controllerManagerAddr | default "0") | quote }}
{{- with (.Values.pprof).addr }}
- {{ printf "--pprof-addr=%s" . | quote }}
{{- end }}
{{- range $flags.excludeLabelPropagationPrefixes }}
- {{ printf "--exclude-label-propagation-prefix=%s" . | quote }}
{{- end }}
{{- with include "gha-rs-controller.number" $flags.k8sClientRateLimiterQPS }}
- {{ printf "--k8s-client-rate-limiter-qps=%s" . | quote }}
{{- end }}
{{- with include "gha-rs-controller.number" $flags.k8sClientRateLimiterBurst }}
- {{ printf "--k8s-client-rate-limiter-burst=%s" . | quote }}
{{- end }}
{{- with ($flags.rateLimiter).name }}
- {{ printf "--workqueue-rate-limiter=%s" . | quote }}
{{- end }}
{{- with include "gha-rs-controller.probeAddress" . }}
- {{ printf "--health-probe-bind-address=%s" . | quote }}
{{- end }}
{{- end }}
