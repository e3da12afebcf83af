{{/*
Everything that is refused before anything is made, each with what is wrong and what to do. One template for
each topic; the first complaint wins. values_checked.yaml asks them before any other template is taken, so that
a person reads these sentences and never a template engine's. Wrong types are caught by values.schema.json as
well, but Helm can be told to skip that.
*/}}

{{- define "scale-set.checks" -}}
{{- include "scale-set.check-types" . -}}
{{- include "scale-set.check-names" . -}}
{{- include "scale-set.check-github" . -}}
{{- include "scale-set.check-labels" . -}}
{{- include "scale-set.check-counts" . -}}
{{- include "scale-set.check-proxy" (dict "proxy" .Values.proxy "path" "proxy") -}}
{{- include "scale-set.check-tls" . -}}
{{- include "scale-set.check-vault" . -}}
{{- include "scale-set.check-container-mode" . -}}
{{- include "scale-set.check-pod" . -}}
{{- end -}}

{{/* A kind in words. Values are not quoted where they may hold a secret, as any text may. */}}
{{- define "scale-set.kind-words" -}}
{{- $words := dict "map" "a map" "slice" "a list" "string" "a text" "bool" "a boolean" "invalid" "empty" -}}
{{- index $words (kindOf .) | default "a number" -}}
{{- end -}}

{{/* A value that is not of its kind would vanish or end in a message about Go types; null is unset.
     Call with (dict "value" V "path" PATH "kind" "map" or "slice" or "string"). */}}
{{- define "scale-set.check-kind" -}}
{{- if not (or (kindIs .kind .value) (kindIs "invalid" .value)) -}}
{{- $wanted := get (dict "map" "a map" "slice" "a list" "string" "a text") .kind -}}
{{- fail (printf "%s must be %s, but it is %s. Look at its example in the chart's values.yaml." .path $wanted (include "scale-set.kind-words" .value)) -}}
{{- end -}}
{{- end -}}

{{/* Sections whose parts are read here and elsewhere. */}}
{{- define "scale-set.check-types" -}}
{{- range $key := list "proxy" "githubServerTLS" "keyVault" "containerMode" "listenerTemplate" "listenerMetrics" "template" "controllerServiceAccount" "labels" "annotations" "resourceMeta" "additions" -}}
{{- include "scale-set.check-kind" (dict "value" (index $.Values $key) "path" $key "kind" "map") -}}
{{- end -}}
{{- range $key := list "metadata" "spec" -}}
{{- include "scale-set.check-kind" (dict "value" (index ($.Values.template | default dict) $key) "path" (print "template." $key) "kind" "map") -}}
{{- end -}}
{{- $sections := dict "template.metadata" ((.Values.template | default dict).metadata) -}}
{{- range $key := list "autoscalingRunnerSet" "githubConfigSecret" "kubernetesModeRole" "kubernetesModeRoleBinding" "kubernetesModeServiceAccount" "managerRole" "managerRoleBinding" "noPermissionServiceAccount" "autoscalingListener" "listenerServiceAccount" "listenerRole" "listenerRoleBinding" "listenerConfigSecret" "ephemeralRunnerSet" "ephemeralRunner" "ephemeralRunnerConfigSecret" -}}
{{- $meta := index ($.Values.resourceMeta | default dict) $key -}}
{{- include "scale-set.check-kind" (dict "value" $meta "path" (print "resourceMeta." $key) "kind" "map") -}}
{{- $_ := set $sections (print "resourceMeta." $key) $meta -}}
{{- end -}}
{{- range $path, $meta := $sections -}}
{{- range $half := list "labels" "annotations" -}}
{{- include "scale-set.check-kind" (dict "value" (index ($meta | default dict) $half) "path" (printf "%s.%s" $path $half) "kind" "map") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name becomes part of object names and the value of labels, which end at 63 characters. */}}
{{- define "scale-set.check-names" -}}
{{- $name := include "scale-set.name" . -}}
{{- $remedy := "Set runnerScaleSetName to a shorter one, or choose a shorter release name." -}}
{{- if gt (len $name) 45 -}}
{{- fail (printf "the scale set's name %q has %d bytes, and 45 are allowed: names of other objects are made from it. %s" $name (len $name) $remedy) -}}
{{- end -}}
{{- if not $name -}}
{{- fail (printf "the scale set has no name: neither a release name nor runnerScaleSetName is set. 1 to 45 bytes are allowed.") -}}
{{- end -}}
{{- $object := include "scale-set.object-name" . -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" $object) -}}
{{- fail (printf "the scale set's name %q cannot name an object in Kubernetes: use small letters a-z, digits, dashes, underscores and dots, with a letter or digit at both ends. Set runnerScaleSetName to such a name." $name) -}}
{{- end -}}
{{- $namespace := include "scale-set.namespace" . -}}
{{- if gt (len $namespace) 63 -}}
{{- fail (printf "the namespace %q has %d characters, and 63 are allowed. Install into another one, or set namespaceOverride." $namespace (len $namespace)) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $namespace) -}}
{{- fail (printf "the namespace %q is none that Kubernetes could have: use small letters a-z, digits and dashes, with a letter or digit at both ends. Correct namespaceOverride, or leave it out." $namespace) -}}
{{- end -}}
{{- end -}}

{{/* Where the runners belong, and as whom to go there. Never quotes what may be a secret. */}}
{{- define "scale-set.check-github" -}}
{{- include "scale-set.check-kind" (dict "value" .Values.githubConfigUrl "path" "githubConfigUrl" "kind" "string") -}}
{{- if not (include "scale-set.config-url" .) -}}
{{- fail "githubConfigUrl is missing. Set it to the address of the repository, organization or enterprise that the runners serve, such as https://github.com/my-org." -}}
{{- end -}}
{{- $keys := "github_token, or of github_app_id, github_app_installation_id and github_app_private_key" -}}
{{- $secret := .Values.githubConfigSecret -}}
{{- if not (or (kindIs "map" $secret) (kindIs "string" $secret) (kindIs "invalid" $secret)) -}}
{{- fail (printf "githubConfigSecret must be a map with credentials or the name of a Secret, but it is %s. Put a name of digits in quotes." (include "scale-set.kind-words" $secret)) -}}
{{- end -}}
{{- if and (kindIs "string" $secret) $secret (not (regexMatch "^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$" $secret)) -}}
{{- fail "githubConfigSecret is a text that cannot be the name of a Secret; it is not repeated here, for it may be a token. Write a token as githubConfigSecret.github_token, or name a Secret that has it." -}}
{{- end -}}
{{- if kindIs "map" $secret -}}
{{- range $key, $_ := $secret -}}
{{- if not (regexMatch "^[-._a-zA-Z0-9]{1,253}$" $key) -}}
{{- fail "githubConfigSecret has a key that no Secret may have. Keys are letters, digits, dashes, dots and underscores, such as github_token." -}}
{{- end -}}
{{- end -}}
{{- $token := include "scale-set.text" $secret.github_token -}}
{{- $id := include "scale-set.text" $secret.github_app_id -}}
{{- $installation := include "scale-set.text" $secret.github_app_installation_id -}}
{{- $key := include "scale-set.text" $secret.github_app_private_key -}}
{{- if not (or $token $id) -}}
{{- fail (printf "githubConfigSecret holds neither a token nor an app id. Set the value of %s; or set githubConfigSecret to the name of a Secret that has them." $keys) -}}
{{- end -}}
{{- if and $id (not (and $installation $key)) -}}
{{- fail "githubConfigSecret.github_app_id is set, but github_app_installation_id or github_app_private_key is not: a GitHub App needs all three. Set both other fields." -}}
{{- end -}}
{{- if and $token (or $id $installation $key) -}}
{{- fail "githubConfigSecret holds both github_token and fields of a GitHub App, and the controller would refuse it. Remove either the token or the github_app_ fields." -}}
{{- end -}}
{{- else if not $secret -}}
{{- fail (printf "githubConfigSecret is empty: credentials are required. Set the value of githubConfigSecret.%s; or set githubConfigSecret to the name of a Secret that has them." $keys) -}}
{{- end -}}
{{- end -}}

{{/* GitHub takes 1 to 255 characters. */}}
{{- define "scale-set.check-labels" -}}
{{- include "scale-set.check-kind" (dict "value" .Values.scaleSetLabels "path" "scaleSetLabels" "kind" "slice") -}}
{{- range $index, $label := .Values.scaleSetLabels -}}
{{- if not (kindIs "string" $label) -}}
{{- fail (printf "scaleSetLabels[%d] must be a text, but it is %s. Write it in quotes." $index (toJson $label)) -}}
{{- end -}}
{{- if not $label -}}
{{- fail (printf "scaleSetLabels[%d] is empty: labels must be non-empty. Remove it." $index) -}}
{{- end -}}
{{- $length := len (splitList "" $label) -}}
{{- if ge $length 256 -}}
{{- fail (printf "scaleSetLabels[%d] (%s...) has %d characters: labels must be shorter than 256. Shorten it." $index (trunc 40 $label) $length) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "scale-set.check-counts" -}}
{{- range $path := list "minRunners" "maxRunners" -}}
{{- $text := include "scale-set.text" (index $.Values $path) | trim -}}
{{- if hasPrefix "-" $text -}}
{{- fail (printf "%s is %s, but it must be 0 or more." $path $text) -}}
{{- end -}}
{{- if and $text (not (regexMatch "^[0-9]+([.][0-9]*)?$" $text)) -}}
{{- fail (printf "%s is %s, but it must be a whole number, 0 or more. Leave it out for no limit." $path $text) -}}
{{- end -}}
{{- if or (gt (len (include "scale-set.count" $text)) 10) (gt (include "scale-set.count" $text | int64) 2147483647) -}}
{{- fail (printf "%s is %s, but it must not be more than 2147483647. Leave maxRunners out for no limit." $path $text) -}}
{{- end -}}
{{- end -}}
{{- $min := include "scale-set.count" .Values.minRunners -}}
{{- $max := include "scale-set.count" .Values.maxRunners -}}
{{- if and $min $max (gt (int64 $min) (int64 $max)) -}}
{{- fail (printf "maxRunners is %s and minRunners is %s: maxRunners must be greater than or equal to minRunners. Raise the one or lower the other." $max $min) -}}
{{- end -}}
{{- end -}}

{{/* Call with (dict "proxy" MAP "path" "proxy"). A proxy's address may hold a password: not quoted. */}}
{{- define "scale-set.check-proxy" -}}
{{- include "scale-set.check-kind" (dict "value" .proxy "path" .path "kind" "map") -}}
{{- $proxy := .proxy | default dict -}}
{{- range $scheme := list "http" "https" -}}
{{- $server := index $proxy $scheme | default dict -}}
{{- if not (kindIs "map" $server) -}}
{{- fail (printf "%s.%s must be a map with url and, if needed, credentialSecretRef. Put the address into %s.%s.url." $.path $scheme $.path $scheme) -}}
{{- end -}}
{{- if and (include "scale-set.text" $server.credentialSecretRef) (not (include "scale-set.text" $server.url)) -}}
{{- fail (printf "%s.%s has a credentialSecretRef but no url. Set %s.%s.url to the proxy's address, such as http://proxy.example.com:8080." $.path $scheme $.path $scheme) -}}
{{- end -}}
{{- end -}}
{{- include "scale-set.check-kind" (dict "value" $proxy.noProxy "path" (print .path ".noProxy") "kind" "slice") -}}
{{- end -}}

{{- define "scale-set.check-tls" -}}
{{- $tls := .Values.githubServerTLS | default dict -}}
{{- if include "scale-set.has-tls" . -}}
{{- $reason := "githubServerTLS is set" -}}
{{- with include "scale-set.text" $tls.runnerMountPath }}{{ $reason = printf "githubServerTLS.runnerMountPath is %q" . }}{{ end -}}
{{- $from := $tls.certificateFrom | default dict -}}
{{- include "scale-set.check-kind" (dict "value" $from "path" "githubServerTLS.certificateFrom" "kind" "map") -}}
{{- include "scale-set.check-kind" (dict "value" $from.configMapKeyRef "path" "githubServerTLS.certificateFrom.configMapKeyRef" "kind" "map") -}}
{{- $source := include "scale-set.certificate-source" . | fromJson -}}
{{- range $part := list "name" "key" -}}
{{- if not (index $source $part) -}}
{{- fail (printf "%s, but githubServerTLS.certificateFrom.configMapKeyRef.%s is not. Set name and key of the ConfigMap with the certificate." $reason $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "scale-set.check-vault" -}}
{{- $values := .Values.keyVault | default dict -}}
{{- $type := include "scale-set.text" $values.type -}}
{{- if and $type (ne $type "azure_key_vault") -}}
{{- fail (printf "keyVault.type %q is not supported. The only kind of vault is azure_key_vault." $type) -}}
{{- end -}}
{{- if $type -}}
{{- include "scale-set.check-kind" (dict "value" $values.azureKeyVault "path" "keyVault.azureKeyVault" "kind" "map") -}}
{{- include "scale-set.check-kind" (dict "value" $values.azure_key_vault "path" "keyVault.azure_key_vault" "kind" "map") -}}
{{- $vault := include "scale-set.azure-key-vault" . | fromJson -}}
{{- range $key := list "url" "tenantId" "clientId" "certificatePath" -}}
{{- if not (index $vault $key) -}}
{{- fail (printf "keyVault.type is azure_key_vault, but keyVault.azureKeyVault.%s is not set. Set url, tenantId, clientId and certificatePath." $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "scale-set.check-proxy" (dict "proxy" $values.proxy "path" "keyVault.proxy") -}}
{{- end -}}

{{- define "scale-set.check-container-mode" -}}
{{- $values := .Values.containerMode | default dict -}}
{{- include "scale-set.check-kind" (dict "value" $values.type "path" "containerMode.type" "kind" "string") -}}
{{- if not (has ($values.type | default "none") (list "none" "dind" "kubernetes" "kubernetes-novolume")) -}}
{{- fail (printf "containerMode.type %q is not known. Use dind, kubernetes or kubernetes-novolume, or leave it out." $values.type) -}}
{{- end -}}
{{- include "scale-set.check-kind" (dict "value" $values.kubernetesModeAdditionalRoleRules "path" "containerMode.kubernetesModeAdditionalRoleRules" "kind" "slice") -}}
{{- include "scale-set.check-kind" (dict "value" $values.kubernetesModeWorkVolumeClaim "path" "containerMode.kubernetesModeWorkVolumeClaim" "kind" "map") -}}
{{- end -}}

{{/* Only what this chart reads of the pod; the rest is for the API server to judge. */}}
{{- define "scale-set.check-pod" -}}
{{- $spec := include "scale-set.given-spec" . | fromJson -}}
{{- range $section := list "containers" "initContainers" "volumes" -}}
{{- $entries := index $spec $section -}}
{{- $path := print "template.spec." $section -}}
{{- include "scale-set.check-kind" (dict "value" $entries "path" $path "kind" "slice") -}}
{{- range $index, $entry := $entries -}}
{{- include "scale-set.check-entry" (dict "entry" $entry "path" (printf "%s[%d]" $path $index)) -}}
{{- range $field := list "env" "volumeMounts" -}}
{{- $parts := index $entry $field -}}
{{- $of := printf "%s[%d].%s" $path $index $field -}}
{{- include "scale-set.check-kind" (dict "value" $parts "path" $of "kind" "slice") -}}
{{- range $number, $part := $parts -}}
{{- include "scale-set.check-entry" (dict "entry" $part "path" (printf "%s[%d]" $of $number)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range $container := $spec.containers }}{{ $names = append $names $container.name }}{{ end -}}
{{- $everyone := $names -}}
{{- range $container := $spec.initContainers }}{{ $everyone = append $everyone $container.name }}{{ end -}}
{{- if ne (len (uniq $everyone)) (len $everyone) -}}
{{- fail (printf "template.spec has two containers of the same name: %s. Give each, init containers too, a name of its own." (join ", " $everyone)) -}}
{{- end -}}
{{- $others := without $names "dind" -}}
{{- if and (ne (include "scale-set.mode" .) "dind") (has "dind" $names) }}{{ $others = $names }}{{ end -}}
{{- if and $others (not (has "runner" $names)) -}}
{{- fail (printf "template.spec.containers has %s, but no container named runner, so that nothing would run jobs. Name the container with the runner so, or add one that has only this name: it gets the default image and command." (join ", " $names)) -}}
{{- end -}}
{{- $volumes := list -}}
{{- range $volume := $spec.volumes }}{{ $volumes = append $volumes $volume.name }}{{ end -}}
{{- if ne (len (uniq $volumes)) (len $volumes) -}}
{{- fail (printf "template.spec.volumes has two volumes of the same name: %s. Give each a name of its own." (join ", " $volumes)) -}}
{{- end -}}
{{- if and (eq (include "scale-set.mode" .) "kubernetes") (not .Values.containerMode.kubernetesModeWorkVolumeClaim) (not (has "work" $volumes)) -}}
{{- fail "containerMode.type is kubernetes, but containerMode.kubernetesModeWorkVolumeClaim is not set. Set it to the spec of a claim for the work folder, give a volume named work in template.spec.volumes, or set containerMode.type to kubernetes-novolume." -}}
{{- end -}}
{{- end -}}

{{/* Entries are merged by name, so each needs one. Call with (dict "entry" ENTRY "path" PATH). */}}
{{- define "scale-set.check-entry" -}}
{{- if not (kindIs "map" .entry) -}}
{{- fail (printf "%s must be a map with a name, but it is %s." .path (include "scale-set.kind-words" .entry)) -}}
{{- end -}}
{{- if not (and (kindIs "string" .entry.name) .entry.name) -}}
{{- fail (printf "%s has no name, or one that is no text. Give it a name." .path) -}}
{{- end -}}
{{- end -}}
