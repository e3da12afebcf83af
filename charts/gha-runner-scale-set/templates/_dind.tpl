{{/*
Container mode dind: a Docker daemon beside the runner, for jobs that call docker. The daemon and its helper
are defaults; a container of the same name in the user's pod template is laid over them (_runner_pod.tpl).
*/}}

{{/* "true" where the daemon runs as a native sidecar (an init container that stays), so that it is there
     before the runner starts and until it has ended: Kubernetes 1.29 and newer. Managed clusters report
     minor versions such as "29+". */}}
{{- define "scale-set.dind-is-sidecar" -}}
{{- $major := regexFind "^[0-9]+" (toString .Capabilities.KubeVersion.Major) | default "1" | int -}}
{{- $minor := regexFind "^[0-9]+" (toString .Capabilities.KubeVersion.Minor) | default "29" | int -}}
{{- if or (gt $major 1) (ge $minor 29) }}true{{ end -}}
{{- end -}}

{{/* Jobs that run in the daemon's containers need Node.js and the rest of the runner's `externals`, which
     only the runner's image has. YAML; call with (dict "image" IMAGE). */}}
{{- define "scale-set.dind-externals-container" -}}
name: init-dind-externals
image: {{ .image | quote }}
command: ["cp"]
args: ["-r", "/home/runner/externals/.", "/home/runner/tmpDir/"]
volumeMounts:
  - name: dind-externals
    mountPath: /home/runner/tmpDir
{{- end -}}

{{/* The daemon. YAML. */}}
{{- define "scale-set.dind-daemon-container" -}}
name: dind
image: docker:dind
args:
  - dockerd
  - --host=unix:///var/run/docker.sock
  - --group=$(DOCKER_GROUP_GID)
env:
  # The group of the user `runner` in the runner's image, so that it may use the socket.
  - name: DOCKER_GROUP_GID
    value: "123"
securityContext:
  privileged: true
{{- if include "scale-set.dind-is-sidecar" . }}
restartPolicy: Always
startupProbe:
  exec:
    command: ["docker", "info"]
  initialDelaySeconds: 0
  failureThreshold: 24
  periodSeconds: 5
{{- end }}
volumeMounts:
  - name: work
    mountPath: /home/runner/_work
  - name: dind-sock
    mountPath: /var/run
  - name: dind-externals
    mountPath: /home/runner/externals
{{- end -}}

{{/* What the runner needs to find the daemon. YAML list, as below. */}}
{{- define "scale-set.dind-env" -}}
- name: DOCKER_HOST
  value: unix:///var/run/docker.sock
- name: RUNNER_WAIT_FOR_DOCKER_IN_SECONDS
  value: "120"
{{- end -}}

{{- define "scale-set.dind-mounts" -}}
- name: work
  mountPath: /home/runner/_work
- name: dind-sock
  mountPath: /var/run
{{- end -}}

{{- define "scale-set.dind-volumes" -}}
- name: dind-sock
  emptyDir: {}
- name: dind-externals
  emptyDir: {}
- name: work
  emptyDir: {}
{{- end -}}
