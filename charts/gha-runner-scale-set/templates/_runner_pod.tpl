{{/*
The pod of a runner: the user's pod template, and what the container mode adds to it. The content of the modes
is in _dind.tpl and _kubernetes_mode.tpl, the certificate in _tls.tpl, the rule of merging in _merging.tpl.
Sections go from template to template as JSON.
*/}}

{{/* The user's pod spec; {} where there is none. */}}
{{- define "scale-set.given-spec" -}}
{{- (.Values.template | default dict).spec | default dict | toJson -}}
{{- end -}}

{{/* The runner as it is when nothing is said about it. YAML. */}}
{{- define "scale-set.default-runner" -}}
name: runner
image: ghcr.io/actions/actions-runner:latest
command: ["/home/runner/run.sh"]
{{- end -}}

{{/* The user's runner container. Without an image it gets the default one, and, as that image is known to
     need it, the default command. */}}
{{- define "scale-set.given-runner" -}}
{{- $spec := include "scale-set.given-spec" . | fromJson -}}
{{- $runner := include "scale-set.named" (dict "list" $spec.containers "name" "runner") | fromJson -}}
{{- if not $runner.image -}}
{{- $default := include "scale-set.default-runner" . | fromYaml -}}
{{- if or $runner.command $runner.args -}}
{{- $default = omit $default "command" -}}
{{- else -}}
{{- $runner = omit $runner "command" -}}
{{- end -}}
{{- $runner = include "scale-set.layered" (list $default (omit $runner "image")) | fromJson -}}
{{- end -}}
{{- toJson $runner -}}
{{- end -}}

{{/* The runner container with what mode and certificate add. */}}
{{- define "scale-set.runner-container" -}}
{{- $mode := include "scale-set.mode" . -}}
{{- $runner := include "scale-set.given-runner" . | fromJson -}}
{{- $env := list -}}
{{- $mounts := list -}}
{{- if eq $mode "dind" -}}
{{- $env = include "scale-set.dind-env" . | fromYamlArray -}}
{{- $mounts = include "scale-set.dind-mounts" . | fromYamlArray -}}
{{- else if $mode -}}
{{- $env = include "scale-set.kubernetes-mode-env" (dict "mode" $mode "image" $runner.image) | fromYamlArray -}}
{{- end -}}
{{- if eq $mode "kubernetes" -}}
{{- $mounts = include "scale-set.kubernetes-mode-mounts" . | fromYamlArray -}}
{{- end -}}
{{- $env = concat $env (include "scale-set.tls-env" . | fromYamlArray) -}}
{{- $mounts = concat $mounts (include "scale-set.tls-mounts" . | fromYamlArray) -}}
{{- $runner = include "scale-set.overlaid" (dict "given" $runner "generated" (dict "env" $env "volumeMounts" $mounts)) | fromJson -}}
{{- if not $runner.env -}}
{{- $_ := unset $runner "env" -}}
{{- end -}}
{{- if not $runner.volumeMounts -}}
{{- $_ := unset $runner "volumeMounts" -}}
{{- if eq $mode "kubernetes-novolume" -}}
{{- $_ := set $runner "volumeMounts" list -}}
{{- end -}}
{{- end -}}
{{- toJson $runner -}}
{{- end -}}

{{/* The Docker daemon's container with the user's of that name, wherever that stands, laid over it. */}}
{{- define "scale-set.dind-daemon" -}}
{{- $spec := include "scale-set.given-spec" . | fromJson -}}
{{- $given := include "scale-set.named" (dict "list" (concat ($spec.containers | default list) ($spec.initContainers | default list)) "name" "dind") | fromJson -}}
{{- include "scale-set.overlaid" (dict "given" $given "generated" (include "scale-set.dind-daemon-container" . | fromYaml)) -}}
{{- end -}}

{{/* The default mode keeps the user's order; the other modes put the runner first. */}}
{{- define "scale-set.containers" -}}
{{- $mode := include "scale-set.mode" . -}}
{{- $given := (include "scale-set.given-spec" . | fromJson).containers | default list -}}
{{- $runner := include "scale-set.runner-container" . | fromJson -}}
{{- $all := list -}}
{{- if or $mode (not $given) -}}
{{- $all = list $runner -}}
{{- if eq $mode "dind" -}}
{{- if not (include "scale-set.dind-is-sidecar" .) -}}
{{- $all = append $all (include "scale-set.dind-daemon" . | fromJson) -}}
{{- end -}}
{{- $given = include "scale-set.without" (dict "list" $given "names" (list "dind")) | fromJsonArray -}}
{{- end -}}
{{- $all = concat $all (include "scale-set.without" (dict "list" $given "names" (list "runner")) | fromJsonArray) -}}
{{- else -}}
{{- range $container := $given -}}
{{- $all = append $all (ternary $runner $container (eq $container.name "runner")) -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/* Mode dind puts its own before the user's. */}}
{{- define "scale-set.init-containers" -}}
{{- $given := (include "scale-set.given-spec" . | fromJson).initContainers | default list -}}
{{- if ne (include "scale-set.mode" .) "dind" -}}
{{- toJson $given -}}
{{- else -}}
{{- $image := (include "scale-set.given-runner" . | fromJson).image -}}
{{- $externals := include "scale-set.dind-externals-container" (dict "image" $image) | fromYaml -}}
{{- $all := list (include "scale-set.overlaid" (dict "given" (include "scale-set.named" (dict "list" $given "name" $externals.name) | fromJson) "generated" $externals) | fromJson) -}}
{{- if include "scale-set.dind-is-sidecar" . -}}
{{- $all = append $all (include "scale-set.dind-daemon" . | fromJson) -}}
{{- end -}}
{{- concat $all (include "scale-set.without" (dict "list" $given "names" (list "dind" $externals.name)) | fromJsonArray) | toJson -}}
{{- end -}}
{{- end -}}

{{- define "scale-set.volumes" -}}
{{- $mode := include "scale-set.mode" . -}}
{{- $given := (include "scale-set.given-spec" . | fromJson).volumes | default list -}}
{{- $generated := include "scale-set.tls-volumes" . | fromYamlArray -}}
{{- if eq $mode "dind" -}}
{{- $generated = concat $generated (include "scale-set.dind-volumes" . | fromYamlArray) -}}
{{- else if eq $mode "kubernetes" -}}
{{- $generated = concat $generated (include "scale-set.kubernetes-mode-volumes" . | fromYamlArray) -}}
{{- end -}}
{{- include "scale-set.generated-first" (dict "given" $given "generated" $generated) -}}
{{- end -}}

{{/* Labels and annotations of runner pods. Not the two by which the controller counts its runners. */}}
{{- define "scale-set.runner-pod-metadata" -}}
{{- $given := (.Values.template | default dict).metadata | default dict -}}
{{- $labels := include "scale-set.text-map" $given.labels | fromJson -}}
{{- $labels = omit $labels "actions.github.com/scale-set-name" "actions.github.com/scale-set-namespace" -}}
{{- $annotations := include "scale-set.text-map" $given.annotations | fromJson -}}
{{- $metadata := dict -}}
{{- if $labels }}{{ $_ := set $metadata "labels" $labels }}{{ end -}}
{{- if $annotations }}{{ $_ := set $metadata "annotations" $annotations }}{{ end -}}
{{- toJson $metadata -}}
{{- end -}}

{{/* The whole pod template. YAML. */}}
{{- define "scale-set.runner-pod" -}}
{{- $spec := include "scale-set.given-spec" . | fromJson -}}
{{- $_ := set $spec "restartPolicy" ($spec.restartPolicy | default "Never") -}}
{{- $_ := set $spec "serviceAccountName" (include "scale-set.runner-account-name" .) -}}
{{- $_ := set $spec "containers" (include "scale-set.containers" . | fromJsonArray) -}}
{{- $init := include "scale-set.init-containers" . | fromJsonArray -}}
{{- $spec = omit $spec "initContainers" "volumes" -}}
{{- if $init }}{{ $_ := set $spec "initContainers" $init }}{{ end -}}
{{- $volumes := include "scale-set.volumes" . | fromJsonArray -}}
{{- if or $volumes (eq (include "scale-set.mode" .) "kubernetes-novolume") -}}
{{- $_ := set $spec "volumes" $volumes -}}
{{- end -}}
{{- with include "scale-set.runner-pod-metadata" . | fromJson -}}
metadata:
  {{- toYaml . | nindent 2 }}
{{ end -}}
spec:
  {{- toYaml $spec | nindent 2 }}
{{- end -}}
