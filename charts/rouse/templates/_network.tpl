{{/* DNS and the API server. Neither can be named by labels everywhere, so their ports are open to any address. */}}
{{- define "rouse.clusterEgress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- ports:
    {{- range .Values.networkPolicies.apiServerPorts }}
    - port: {{ . }}
    {{- end }}
{{- end -}}
