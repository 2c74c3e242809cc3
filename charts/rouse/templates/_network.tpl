{{/* The ports of collectors of traces, as JSON: of the configured one, and of others that may replace it while the processes run. */}}
{{- define "rouse.tracePorts" -}}
{{- $ports := list -}}
{{- with .Values.traceCollectorEndpoint -}}
{{- $url := urlParse . -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (eq $url.scheme "https" | ternary 443 80) | int) -}}
{{- end -}}
{{- range .Values.networkPolicies.tracePorts -}}
{{- $ports = append $ports (int .) -}}
{{- end -}}
{{ uniq $ports | toJson }}
{{- end -}}

{{/* The ports of DNS servers, as JSON. Values of an earlier chart do not have them. */}}
{{- define "rouse.dnsPorts" -}}
{{- .Values.networkPolicies.dnsPorts | default (list 53 8053) | toJson -}}
{{- end -}}

{{/* DNS and the API server. Labels do not select them in every cluster, so their ports are open to any address. */}}
{{- define "rouse.clusterEgress" -}}
- ports:
    {{- range include "rouse.dnsPorts" . | fromJsonArray }}
    - {port: {{ int . }}, protocol: UDP}
    - {port: {{ int . }}, protocol: TCP}
    {{- end }}
- ports:
    {{- range .Values.networkPolicies.apiServerPorts }}
    - port: {{ . }}
    {{- end }}
{{- end -}}

{{/* Peers that read the metrics of the processes which alerts concern, as YAML. */}}
{{- define "rouse.metricsFrom" -}}
{{- $peers := .Values.networkPolicies.metricsFrom -}}
{{- if eq (include "rouse.servesDashboard" .) "true" -}}
{{- $labels := include "rouse.selectorLabels" (dict "root" . "component" "dashboard") | fromYaml -}}
{{- $peers = append $peers (dict "podSelector" (dict "matchLabels" $labels)) -}}
{{- end -}}
{{ toYaml $peers }}
{{- end -}}

{{/* The hosts of sinks outside a Subscription's namespace. */}}
{{- define "rouse.sinkArgs" -}}
{{- with .Values.sinks.allowedHosts -}}
- --allowed-sink-hosts={{ join "," . }}
{{- end -}}
{{- with include "rouse.access" . }}
- {{ printf "--access=%s" . | quote }}
{{- end -}}
{{- end }}

{{/* The access rules for subscribing and publishing, as JSON; empty: no restriction. A change of them restarts the pods. */}}
{{- define "rouse.access" -}}
{{- $access := dict -}}
{{- with (.Values.access | default dict).subscribe }}{{ if .enabled }}{{ $_ := set $access "subscribe" (dict "rules" .rules) }}{{ end }}{{ end -}}
{{- with (.Values.access | default dict).publish }}{{ if .enabled }}{{ $_ := set $access "publish" (dict "audience" .audience "rules" .rules) }}{{ end }}{{ end -}}
{{- if $access }}{{ toJson $access }}{{ end -}}
{{- end }}

{{/* The certificates of sinks. A whole folder, as for NATS. */}}
{{- define "rouse.sinkCAMounts" -}}
{{- with .Values.sinks.ca -}}
{{- if or .configMap .secret -}}
- name: sink-ca
  mountPath: /etc/rouse/sink-ca
  readOnly: true
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rouse.sinkCAVolumes" -}}
{{- with .Values.sinks.ca -}}
{{- if or .configMap .secret -}}
- name: sink-ca
  {{- if .configMap }}
  configMap:
    name: {{ .configMap }}
  {{- else }}
  secret:
    secretName: {{ .secret }}
  {{- end }}
    defaultMode: 0440
    items:
      - {key: {{ .key }}, path: {{ .key }}}
{{- end -}}
{{- end -}}
{{- end -}}
