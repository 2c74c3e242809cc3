{{/* The gateway's Service as namespace/name, empty when plain HTTP does not wake Functions. */}}
{{- define "rouse.gatewayService" -}}
{{- if (.Values.gateway | default dict).enabled -}}
{{ .Release.Namespace }}/{{ include "rouse.fullname" . }}-gateway
{{- end -}}
{{- end -}}

{{/* The ports for requests to the hosts of APIRules, and their certificates. Clients without SNI get the first certificate, so the
folders are in order. Pods start without Secrets that do not exist yet. */}}
{{- define "rouse.entranceArgs" -}}
{{- if eq (include "rouse.servesAPIRules" .) "true" -}}
{{ include "rouse.apiRulesArgs" . }}
{{- with include "rouse.publisherAliasArgs" . }}
{{ . }}
{{- end }}
- --http-address=:8080
{{- with .Values.apiRules }}
{{- if .tls.secretNames }}
- --tls-address=:8443
- --tls-dir=/etc/rouse/tls
{{- end }}
{{- if eq (include "rouse.servesDoors" $) "true" }}
- --door-token-file=/var/run/secrets/rouse-doors/token
{{- end }}
{{- if .authorizers }}
- --authorizers-file=/etc/rouse/authorizers/authorizers.json
{{- end }}
{{- with .trustedProxies }}
- --trusted-proxies={{ join "," . }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "rouse.entrancePorts" -}}
{{- if eq (include "rouse.servesAPIRules" .) "true" -}}
- name: http
  containerPort: 8080
{{- if .Values.apiRules.tls.secretNames }}
- name: https
  containerPort: 8443
{{- end }}
{{- end -}}
{{- end -}}

{{- define "rouse.entranceMounts" -}}
{{- if eq (include "rouse.servesAPIRules" .) "true" -}}
{{- if .Values.apiRules.tls.secretNames -}}
- name: tls
  mountPath: /etc/rouse/tls
  readOnly: true
{{ end -}}
{{- if eq (include "rouse.servesDoors" .) "true" -}}
- name: door-token
  mountPath: /var/run/secrets/rouse-doors
  readOnly: true
{{ end -}}
{{- if .Values.apiRules.authorizers -}}
- name: authorizers
  mountPath: /etc/rouse/authorizers
  readOnly: true
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rouse.entranceVolumes" -}}
{{- if eq (include "rouse.servesAPIRules" .) "true" -}}
{{- with .Values.apiRules.tls.secretNames -}}
- name: tls
  projected:
    defaultMode: 0440
    sources:
      {{- range $i, $name := . }}
      - secret:
          name: {{ $name }}
          optional: true
          items:
            - {key: tls.crt, path: {{ printf "%03d-%s/tls.crt" $i $name }}}
            - {key: tls.key, path: {{ printf "%03d-%s/tls.key" $i $name }}}
      {{- end }}
{{ end -}}
{{- if eq (include "rouse.servesDoors" .) "true" -}}
- name: door-token # for which bridges take requests to Doors from this pod
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {audience: rouse-doors, expirationSeconds: 3600, path: token}
{{ end -}}
{{- if .Values.apiRules.authorizers -}}
- name: authorizers
  configMap:
    name: {{ include "rouse.fullname" . }}-gateway-authorizers
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Authorizers are read when a gateway starts: a change of them restarts the pods. */}}
{{- define "rouse.authorizersChecksum" -}}
{{- if eq (include "rouse.servesAPIRules" .) "true" -}}
{{- with .Values.apiRules.authorizers -}}
checksum/authorizers: {{ toJson . | sha256sum }}
{{- end -}}
{{- end -}}
{{- end -}}
