{{/* The settings that can change while the processes run: the content of the ConfigMaps. See docs/settings.md. */}}

{{- define "rouse.settingsArgs" -}}
- --config-map={{ .Release.Namespace }}/{{ include "rouse.fullname" . }}-config
- --log-config-map={{ .Release.Namespace }}/{{ include "rouse.fullname" . }}-log-config
{{- end -}}

{{/* The default address at which Functions publish. */}}
{{- define "rouse.publisherURL" -}}
http://{{ include "rouse.publisherHost" . }}/publish
{{- end -}}

{{- define "rouse.functionConfig" -}}
{{- $controller := .Values.controller -}}
functionPublisherProxyAddress: {{ .Values.publisherAddress | default (include "rouse.publisherURL" .) | quote }}
functionTraceCollectorEndpoint: {{ .Values.traceCollectorEndpoint | default "" | quote }}
{{- with $controller.requeueDuration }}
functionReadyRequeueDuration: {{ . | quote }}
{{- end }}
{{- if or $controller.defaultProfile $controller.profiles }}
resourcesConfiguration:
  function:
    resources:
      {{- with $controller.defaultProfile }}
      defaultPreset: {{ . | quote }}
      {{- end }}
      {{- with $controller.profiles }}
      presets:
        {{- range $name, $profile := . }}
        {{ $name }}:
          requestCpu: {{ $profile.requestCpu | toString | quote }}
          requestMemory: {{ $profile.requestMemory | toString | quote }}
          limitCpu: {{ $profile.limitCpu | toString | quote }}
          limitMemory: {{ $profile.limitMemory | toString | quote }}
        {{- end }}
      {{- end }}
{{- end }}
scaling:
  pollingInterval: {{ .Values.scaling.pollingIntervalSeconds }}s
  cooldownPeriod: {{ .Values.scaling.cooldownPeriodSeconds }}s
  initialCooldownPeriod: {{ .Values.scaling.initialCooldownPeriodSeconds }}s
  scaleDownStabilization: {{ .Values.scaling.scaleDownStabilizationSeconds }}s
gitCheckInterval: {{ .Values.git.checkInterval | quote }}
httpWait: {{ (.Values.gateway | default dict).waitSeconds | default 60 }}s
{{- with (.Values.eventbridge | default dict).delivery }}
delivery:
  maxAttempts: {{ int64 .maxAttempts }}
  backoff: {{ .backoff | quote }}
  maxBackoff: {{ .maxBackoff | quote }}
{{- end }}
rollout:
  maxFunctions: {{ $controller.maxRollouts | default 10 }}
{{- end -}}

{{- define "rouse.logConfig" -}}
logLevel: {{ .Values.logLevel | default "info" }}
logFormat: {{ .Values.logFormat | default "json" }}
{{- with .Values.logLevels }}
components:
  {{- range $component, $level := . }}
  {{ $component | quote }}: {{ $level }}
  {{- end }}
{{- end }}
{{- if not (kindIs "invalid" .Values.logDebugLinesPerSecond) }}
debugLinesPerSecond: {{ .Values.logDebugLinesPerSecond }}
{{- end }}
{{- end -}}

{{/* What the Schedules of a namespace may be. Controller and eventbridge decide alike. */}}
{{- define "rouse.scheduleArgs" -}}
- --schedules-per-namespace={{ int64 .Values.schedules.perNamespace }}
- --scheduled-events-per-minute={{ int64 .Values.schedules.eventsPerMinute }}
{{- end -}}
