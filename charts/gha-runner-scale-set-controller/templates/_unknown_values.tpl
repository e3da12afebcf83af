{{/*
Made by `make generate` from values.schema.json and tools/unknown_values.tpl; do not edit.

Names the values that the chart does not know, for NOTES.txt: nothing is said when all are known.
An unknown value never fails an installation. What was probably meant is found by the letters and
pairs of letters that two names share, as src/runnerscale/chart_values/nearest.py explains.

The file is the same in both charts, with the values of both: named templates of Helm are global,
and one release may contain both charts as parts of a third.
*/}}

{{- define "runnerscale.unknownValues" -}}
{{- if (.Values.additions | default dict).unknownValueNotes -}}
{{- $chart := .Chart.Name -}}
{{- $all := include "runnerscale.knownValues" . | fromJson -}}
{{- if not (hasKey $all $chart) -}}
{{- /* renamed by `alias` of a third chart */ -}}
{{- $chart = ternary "gha-runner-scale-set" "gha-runner-scale-set-controller" (hasKey .Values "githubConfigUrl") -}}
{{- end -}}
{{- $known := get $all $chart -}}
{{- $found := dict "unknown" list "ignored" list -}}
{{- include "runnerscale.unknownValuesIn" (dict "values" .Values "tree" $known.tree "prefix" "" "found" $found) -}}
{{- if $found.unknown }}
{{- $others := list -}}
{{- range $known.paths -}}
{{- $name := splitList "." . | last -}}
{{- $features := include "runnerscale.nameFeatures" $name | splitList "," -}}
{{- $others = append $others (dict "path" . "parent" (trimSuffix $name .) "features" $features "twice" (has $name $known.twice)) -}}
{{- end }}
These values are not known to this chart and change nothing:
{{- range $index, $value := $found.unknown -}}
{{- if lt $index 20 }}
- {{ $value.path }}
{{- with include "runnerscale.nearestValue" (dict "key" $value.key "prefix" $value.prefix "others" $others) }} (did you mean {{ . }}?){{ end -}}
{{- end -}}
{{- end }}
{{- with sub (len $found.unknown) 20 | max 0 }}
- and {{ . }} more
{{- end -}}
{{- end -}}
{{- if $found.ignored }}
These values are accepted, since ARC's values files carry them, and ignored:
{{- range $found.ignored }}
- {{ . }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Writes into .found; the keys of free-form maps are the user's own and not looked at. */ -}}
{{- define "runnerscale.unknownValuesIn" -}}
{{- range $key, $value := .values -}}
{{- $shown := ternary $key (trunc 80 $key | quote) (regexMatch "^[A-Za-z0-9_-]{1,80}$" $key) -}}
{{- $path := print $.prefix $shown -}}
{{- if not (hasKey $.tree $key) -}}
{{- $_ := set $.found "unknown" (append $.found.unknown (dict "path" $path "key" $key "prefix" $.prefix)) -}}
{{- else -}}
{{- $below := get $.tree $key -}}
{{- if kindIs "string" $below -}}
{{- if $below -}}
{{- $_ := set $.found "ignored" (append $.found.ignored (printf "%s: %s" $path $below)) -}}
{{- end -}}
{{- else if kindIs "map" $value -}}
{{- include "runnerscale.unknownValuesIn" (dict "values" $value "tree" $below "prefix" (print $path ".") "found" $.found) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The known path whose last name is most like .key, or nothing. */ -}}
{{- define "runnerscale.nearestValue" -}}
{{- $have := dict -}}
{{- range include "runnerscale.nameFeatures" .key | splitList "," -}}{{- $_ := set $have . "" -}}{{- end -}}
{{- $best := "" -}}
{{- $bestScore := 0 -}}
{{- range $other := .others -}}
{{- $isNear := eq $other.parent $.prefix -}}
{{- if or $isNear (not $other.twice) -}}
{{- $shared := 0 -}}
{{- range $other.features -}}{{- if hasKey $have . -}}{{- $shared = add1 $shared -}}{{- end -}}{{- end -}}
{{- $score := div (mul 200 $shared) (add (len $have) (len $other.features)) -}}
{{- if ge $score (ternary 45 80 $isNear) -}}
{{- $score = ternary (add $score 15) $score $isNear -}}
{{- if gt $score $bestScore -}}{{- $best = $other.path -}}{{- $bestScore = $score -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $best -}}
{{- end -}}

{{- /* The letters (`a.`) and pairs of letters (`ab`, at the ends `<a` and `z>`) of a name. */ -}}
{{- define "runnerscale.nameFeatures" -}}
{{- $word := regexReplaceAll "[^A-Za-z0-9]" . "" | lower | trunc 64 -}}
{{- if $word -}}
{{- $marked := printf "<%s>" $word -}}
{{- $features := concat (regexFindAll ".." $marked -1) (regexFindAll ".." (trimPrefix "<" $marked) -1) -}}
{{- range regexFindAll "." $word -1 -}}{{- $features = append $features (print . ".") -}}{{- end -}}
{{- uniq $features | join "," -}}
{{- end -}}
{{- end -}}

{{- define "runnerscale.knownValues" -}}
{
 "gha-runner-scale-set-controller": {
  "tree": {
   "labels": "",
   "replicaCount": "",
   "image": {
    "repository": "",
    "pullPolicy": "",
    "tag": ""
   },
   "imagePullSecrets": "",
   "nameOverride": "",
   "fullnameOverride": "",
   "namespaceOverride": "",
   "env": "",
   "serviceAccount": {
    "create": "",
    "annotations": "",
    "name": ""
   },
   "podAnnotations": "",
   "podLabels": "",
   "podSecurityContext": "",
   "securityContext": "",
   "resources": "",
   "nodeSelector": "",
   "tolerations": "",
   "affinity": "",
   "topologySpreadConstraints": "",
   "volumes": "",
   "volumeMounts": "",
   "priorityClassName": "",
   "metrics": {
    "controllerManagerAddr": "",
    "listenerAddr": "",
    "listenerEndpoint": ""
   },
   "pprof": {
    "addr": ""
   },
   "flags": {
    "logLevel": "",
    "logFormat": "",
    "watchSingleNamespace": "",
    "runnerMaxConcurrentReconciles": "",
    "autoscalingRunnerSetMaxConcurrentReconciles": "",
    "autoscalingListenerMaxConcurrentReconciles": "",
    "ephemeralRunnerSetMaxConcurrentReconciles": "",
    "ephemeralRunnerMaxConcurrentReconciles": "",
    "excludeLabelPropagationPrefixes": "",
    "rateLimiter": {
     "name": ""
    },
    "healthProbeBindAddress": "",
    "k8sClientRateLimiterQPS": "",
    "k8sClientRateLimiterBurst": "",
    "updateStrategy": "ARC dropped the update strategy after 0.14.2; a changed scale set exchanges idle runners a few at a time and waits for busy ones"
   },
   "additions": {
    "labels": "",
    "events": "",
    "restrictedSecurity": "",
    "resources": "",
    "probes": "",
    "podDisruptionBudget": "",
    "topologySpread": "",
    "listenerSecurity": "",
    "listenerResources": "",
    "unknownValueNotes": ""
   },
   "networkPolicy": {
    "enabled": "",
    "metricsFrom": "",
    "egress": "",
    "extraEgress": ""
   },
   "podMonitor": {
    "enabled": "",
    "labels": "",
    "interval": "",
    "scrapeTimeout": "",
    "relabelings": "",
    "metricRelabelings": ""
   },
   "serviceMonitor": {
    "enabled": "",
    "labels": "",
    "interval": "",
    "scrapeTimeout": "",
    "relabelings": "",
    "metricRelabelings": ""
   },
   "prometheusRule": {
    "enabled": "",
    "labels": ""
   },
   "global": ""
  },
  "paths": [
   "additions",
   "affinity",
   "env",
   "flags",
   "fullnameOverride",
   "global",
   "image",
   "imagePullSecrets",
   "labels",
   "metrics",
   "nameOverride",
   "namespaceOverride",
   "networkPolicy",
   "nodeSelector",
   "podAnnotations",
   "podLabels",
   "podMonitor",
   "podSecurityContext",
   "pprof",
   "priorityClassName",
   "prometheusRule",
   "replicaCount",
   "resources",
   "securityContext",
   "serviceAccount",
   "serviceMonitor",
   "tolerations",
   "topologySpreadConstraints",
   "volumeMounts",
   "volumes",
   "additions.events",
   "additions.labels",
   "additions.listenerResources",
   "additions.listenerSecurity",
   "additions.podDisruptionBudget",
   "additions.probes",
   "additions.resources",
   "additions.restrictedSecurity",
   "additions.topologySpread",
   "additions.unknownValueNotes",
   "flags.autoscalingListenerMaxConcurrentReconciles",
   "flags.autoscalingRunnerSetMaxConcurrentReconciles",
   "flags.ephemeralRunnerMaxConcurrentReconciles",
   "flags.ephemeralRunnerSetMaxConcurrentReconciles",
   "flags.excludeLabelPropagationPrefixes",
   "flags.healthProbeBindAddress",
   "flags.k8sClientRateLimiterBurst",
   "flags.k8sClientRateLimiterQPS",
   "flags.logFormat",
   "flags.logLevel",
   "flags.rateLimiter",
   "flags.runnerMaxConcurrentReconciles",
   "flags.watchSingleNamespace",
   "image.pullPolicy",
   "image.repository",
   "image.tag",
   "metrics.controllerManagerAddr",
   "metrics.listenerAddr",
   "metrics.listenerEndpoint",
   "networkPolicy.egress",
   "networkPolicy.enabled",
   "networkPolicy.extraEgress",
   "networkPolicy.metricsFrom",
   "podMonitor.enabled",
   "podMonitor.interval",
   "podMonitor.labels",
   "podMonitor.metricRelabelings",
   "podMonitor.relabelings",
   "podMonitor.scrapeTimeout",
   "pprof.addr",
   "prometheusRule.enabled",
   "prometheusRule.labels",
   "serviceAccount.annotations",
   "serviceAccount.create",
   "serviceAccount.name",
   "serviceMonitor.enabled",
   "serviceMonitor.interval",
   "serviceMonitor.labels",
   "serviceMonitor.metricRelabelings",
   "serviceMonitor.relabelings",
   "serviceMonitor.scrapeTimeout",
   "flags.rateLimiter.name"
  ],
  "twice": [
   "enabled",
   "interval",
   "labels",
   "metricRelabelings",
   "name",
   "relabelings",
   "resources",
   "scrapeTimeout"
  ]
 },
 "gha-runner-scale-set": {
  "tree": {
   "githubConfigUrl": "",
   "githubConfigSecret": "",
   "scaleSetLabels": "",
   "runnerGroup": "",
   "runnerScaleSetName": "",
   "minRunners": "",
   "maxRunners": "",
   "proxy": {
    "http": {
     "url": "",
     "credentialSecretRef": ""
    },
    "https": {
     "url": "",
     "credentialSecretRef": ""
    },
    "noProxy": ""
   },
   "githubServerTLS": {
    "certificateFrom": {
     "configMapKeyRef": {
      "name": "",
      "key": ""
     }
    },
    "runnerMountPath": ""
   },
   "keyVault": {
    "type": "",
    "proxy": {
     "http": {
      "url": "",
      "credentialSecretRef": ""
     },
     "https": {
      "url": "",
      "credentialSecretRef": ""
     },
     "noProxy": ""
    },
    "azureKeyVault": {
     "url": "",
     "tenantId": "",
     "tenant_id": "",
     "clientId": "",
     "client_id": "",
     "certificatePath": "",
     "certificate_path": "",
     "secretKey": "no version of the resource knows a secret key for the vault; the certificate is what is used",
     "secret_key": "no version of the resource knows a secret key for the vault; the certificate is what is used"
    },
    "azure_key_vault": {
     "url": "",
     "tenantId": "",
     "tenant_id": "",
     "clientId": "",
     "client_id": "",
     "certificatePath": "",
     "certificate_path": "",
     "secretKey": "no version of the resource knows a secret key for the vault; the certificate is what is used",
     "secret_key": "no version of the resource knows a secret key for the vault; the certificate is what is used"
    }
   },
   "containerMode": {
    "type": "",
    "kubernetesModeWorkVolumeClaim": "",
    "kubernetesModeAdditionalRoleRules": ""
   },
   "listenerTemplate": "",
   "listenerMetrics": {
    "counters": {
     "gha_started_jobs_total": {
      "labels": ""
     },
     "gha_completed_jobs_total": {
      "labels": ""
     }
    },
    "gauges": {
     "gha_assigned_jobs": {
      "labels": ""
     },
     "gha_running_jobs": {
      "labels": ""
     },
     "gha_registered_runners": {
      "labels": ""
     },
     "gha_busy_runners": {
      "labels": ""
     },
     "gha_min_runners": {
      "labels": ""
     },
     "gha_max_runners": {
      "labels": ""
     },
     "gha_desired_runners": {
      "labels": ""
     },
     "gha_idle_runners": {
      "labels": ""
     }
    },
    "histograms": {
     "gha_job_startup_duration_seconds": {
      "labels": "",
      "buckets": ""
     },
     "gha_job_execution_duration_seconds": {
      "labels": "",
      "buckets": ""
     }
    }
   },
   "template": {
    "metadata": {
     "labels": "",
     "annotations": ""
    },
    "spec": ""
   },
   "controllerServiceAccount": {
    "name": "",
    "namespace": ""
   },
   "namespaceOverride": "",
   "labels": "",
   "annotations": "",
   "resourceMeta": {
    "autoscalingRunnerSet": {
     "labels": "",
     "annotations": ""
    },
    "githubConfigSecret": {
     "labels": "",
     "annotations": ""
    },
    "kubernetesModeRole": {
     "labels": "",
     "annotations": ""
    },
    "kubernetesModeRoleBinding": {
     "labels": "",
     "annotations": ""
    },
    "kubernetesModeServiceAccount": {
     "labels": "",
     "annotations": ""
    },
    "managerRole": {
     "labels": "",
     "annotations": ""
    },
    "managerRoleBinding": {
     "labels": "",
     "annotations": ""
    },
    "noPermissionServiceAccount": {
     "labels": "",
     "annotations": ""
    },
    "autoscalingListener": {
     "labels": "",
     "annotations": ""
    },
    "listenerServiceAccount": {
     "labels": "",
     "annotations": ""
    },
    "listenerRole": {
     "labels": "",
     "annotations": ""
    },
    "listenerRoleBinding": {
     "labels": "",
     "annotations": ""
    },
    "listenerConfigSecret": {
     "labels": "",
     "annotations": ""
    },
    "ephemeralRunnerSet": {
     "labels": "",
     "annotations": ""
    },
    "ephemeralRunner": {
     "labels": "",
     "annotations": ""
    },
    "ephemeralRunnerConfigSecret": {
     "labels": "",
     "annotations": ""
    }
   },
   "nameOverride": "objects of a scale set are named after runnerScaleSetName, else after the release",
   "fullnameOverride": "objects of a scale set are named after runnerScaleSetName, else after the release",
   "additions": {
    "unknownValueNotes": ""
   },
   "global": ""
  },
  "paths": [
   "additions",
   "annotations",
   "containerMode",
   "controllerServiceAccount",
   "githubConfigSecret",
   "githubConfigUrl",
   "githubServerTLS",
   "global",
   "keyVault",
   "labels",
   "listenerMetrics",
   "listenerTemplate",
   "maxRunners",
   "minRunners",
   "namespaceOverride",
   "proxy",
   "resourceMeta",
   "runnerGroup",
   "runnerScaleSetName",
   "scaleSetLabels",
   "template",
   "additions.unknownValueNotes",
   "containerMode.kubernetesModeAdditionalRoleRules",
   "containerMode.kubernetesModeWorkVolumeClaim",
   "containerMode.type",
   "controllerServiceAccount.name",
   "controllerServiceAccount.namespace",
   "githubServerTLS.certificateFrom",
   "githubServerTLS.runnerMountPath",
   "keyVault.azureKeyVault",
   "keyVault.azure_key_vault",
   "keyVault.proxy",
   "keyVault.type",
   "listenerMetrics.counters",
   "listenerMetrics.gauges",
   "listenerMetrics.histograms",
   "proxy.http",
   "proxy.https",
   "proxy.noProxy",
   "resourceMeta.autoscalingListener",
   "resourceMeta.autoscalingRunnerSet",
   "resourceMeta.ephemeralRunner",
   "resourceMeta.ephemeralRunnerConfigSecret",
   "resourceMeta.ephemeralRunnerSet",
   "resourceMeta.githubConfigSecret",
   "resourceMeta.kubernetesModeRole",
   "resourceMeta.kubernetesModeRoleBinding",
   "resourceMeta.kubernetesModeServiceAccount",
   "resourceMeta.listenerConfigSecret",
   "resourceMeta.listenerRole",
   "resourceMeta.listenerRoleBinding",
   "resourceMeta.listenerServiceAccount",
   "resourceMeta.managerRole",
   "resourceMeta.managerRoleBinding",
   "resourceMeta.noPermissionServiceAccount",
   "template.metadata",
   "template.spec",
   "githubServerTLS.certificateFrom.configMapKeyRef",
   "keyVault.azureKeyVault.certificatePath",
   "keyVault.azureKeyVault.certificate_path",
   "keyVault.azureKeyVault.clientId",
   "keyVault.azureKeyVault.client_id",
   "keyVault.azureKeyVault.tenantId",
   "keyVault.azureKeyVault.tenant_id",
   "keyVault.azureKeyVault.url",
   "keyVault.azure_key_vault.certificatePath",
   "keyVault.azure_key_vault.certificate_path",
   "keyVault.azure_key_vault.clientId",
   "keyVault.azure_key_vault.client_id",
   "keyVault.azure_key_vault.tenantId",
   "keyVault.azure_key_vault.tenant_id",
   "keyVault.azure_key_vault.url",
   "keyVault.proxy.http",
   "keyVault.proxy.https",
   "keyVault.proxy.noProxy",
   "listenerMetrics.counters.gha_completed_jobs_total",
   "listenerMetrics.counters.gha_started_jobs_total",
   "listenerMetrics.gauges.gha_assigned_jobs",
   "listenerMetrics.gauges.gha_busy_runners",
   "listenerMetrics.gauges.gha_desired_runners",
   "listenerMetrics.gauges.gha_idle_runners",
   "listenerMetrics.gauges.gha_max_runners",
   "listenerMetrics.gauges.gha_min_runners",
   "listenerMetrics.gauges.gha_registered_runners",
   "listenerMetrics.gauges.gha_running_jobs",
   "listenerMetrics.histograms.gha_job_execution_duration_seconds",
   "listenerMetrics.histograms.gha_job_startup_duration_seconds",
   "proxy.http.credentialSecretRef",
   "proxy.http.url",
   "proxy.https.credentialSecretRef",
   "proxy.https.url",
   "resourceMeta.autoscalingListener.annotations",
   "resourceMeta.autoscalingListener.labels",
   "resourceMeta.autoscalingRunnerSet.annotations",
   "resourceMeta.autoscalingRunnerSet.labels",
   "resourceMeta.ephemeralRunner.annotations",
   "resourceMeta.ephemeralRunner.labels",
   "resourceMeta.ephemeralRunnerConfigSecret.annotations",
   "resourceMeta.ephemeralRunnerConfigSecret.labels",
   "resourceMeta.ephemeralRunnerSet.annotations",
   "resourceMeta.ephemeralRunnerSet.labels",
   "resourceMeta.githubConfigSecret.annotations",
   "resourceMeta.githubConfigSecret.labels",
   "resourceMeta.kubernetesModeRole.annotations",
   "resourceMeta.kubernetesModeRole.labels",
   "resourceMeta.kubernetesModeRoleBinding.annotations",
   "resourceMeta.kubernetesModeRoleBinding.labels",
   "resourceMeta.kubernetesModeServiceAccount.annotations",
   "resourceMeta.kubernetesModeServiceAccount.labels",
   "resourceMeta.listenerConfigSecret.annotations",
   "resourceMeta.listenerConfigSecret.labels",
   "resourceMeta.listenerRole.annotations",
   "resourceMeta.listenerRole.labels",
   "resourceMeta.listenerRoleBinding.annotations",
   "resourceMeta.listenerRoleBinding.labels",
   "resourceMeta.listenerServiceAccount.annotations",
   "resourceMeta.listenerServiceAccount.labels",
   "resourceMeta.managerRole.annotations",
   "resourceMeta.managerRole.labels",
   "resourceMeta.managerRoleBinding.annotations",
   "resourceMeta.managerRoleBinding.labels",
   "resourceMeta.noPermissionServiceAccount.annotations",
   "resourceMeta.noPermissionServiceAccount.labels",
   "template.metadata.annotations",
   "template.metadata.labels",
   "githubServerTLS.certificateFrom.configMapKeyRef.key",
   "githubServerTLS.certificateFrom.configMapKeyRef.name",
   "keyVault.proxy.http.credentialSecretRef",
   "keyVault.proxy.http.url",
   "keyVault.proxy.https.credentialSecretRef",
   "keyVault.proxy.https.url",
   "listenerMetrics.counters.gha_completed_jobs_total.labels",
   "listenerMetrics.counters.gha_started_jobs_total.labels",
   "listenerMetrics.gauges.gha_assigned_jobs.labels",
   "listenerMetrics.gauges.gha_busy_runners.labels",
   "listenerMetrics.gauges.gha_desired_runners.labels",
   "listenerMetrics.gauges.gha_idle_runners.labels",
   "listenerMetrics.gauges.gha_max_runners.labels",
   "listenerMetrics.gauges.gha_min_runners.labels",
   "listenerMetrics.gauges.gha_registered_runners.labels",
   "listenerMetrics.gauges.gha_running_jobs.labels",
   "listenerMetrics.histograms.gha_job_execution_duration_seconds.buckets",
   "listenerMetrics.histograms.gha_job_execution_duration_seconds.labels",
   "listenerMetrics.histograms.gha_job_startup_duration_seconds.buckets",
   "listenerMetrics.histograms.gha_job_startup_duration_seconds.labels"
  ],
  "twice": [
   "annotations",
   "buckets",
   "certificatePath",
   "certificate_path",
   "clientId",
   "client_id",
   "credentialSecretRef",
   "githubConfigSecret",
   "http",
   "https",
   "labels",
   "name",
   "noProxy",
   "proxy",
   "tenantId",
   "tenant_id",
   "type",
   "url"
  ]
 }
}
{{- end -}}
