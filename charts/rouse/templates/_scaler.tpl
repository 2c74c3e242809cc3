{{/* TLS between KEDA and the scaler. Both authenticate by certificates of one authority. */}}

{{- define "rouse.scalerSecret" -}}
{{ .Values.scaler.tls.secret | default (printf "%s-scaler" (include "rouse.fullname" .)) }}
{{- end -}}

{{- define "rouse.scalerMount" -}}
{{- if .Values.scaler.tls.enabled }}
- name: scaler-tls
  mountPath: /etc/rouse/scaler-tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "rouse.scalerVolume" -}}
{{- if .Values.scaler.tls.enabled }}
- name: scaler-tls
  secret:
    secretName: {{ include "rouse.scalerSecret" . }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* The certificates that the chart generates for the scaler and KEDA, from an authority without a stored key. Certificates of an earlier
release are kept. They are stored beside the values, because each call would generate others. */}}
{{- define "rouse.scalerCertificates" -}}
{{- if not (hasKey .Values.scaler.tls "made") -}}
{{- $name := printf "%s-scaler" (include "rouse.fullname" .) -}}
{{- $ours := (lookup "v1" "Secret" .Release.Namespace $name).data | default dict -}}
{{- $kedas := (lookup "v1" "Secret" .Values.keda.namespace (printf "%s-keda" $name)).data | default dict -}}
{{- $made := dict -}}
{{- if and (hasKey $ours "tls.key") (hasKey $kedas "tls.key") (eq (get $ours "ca.crt") (get $kedas "ca.crt" | default "-")) -}}
{{- range $key := list "ca.crt" "tls.crt" "tls.key" -}}
{{- $_ := set $made (printf "scaler-%s" $key) (get $ours $key | b64dec) -}}
{{- $_ := set $made (printf "keda-%s" $key) (get $kedas $key | b64dec) -}}
{{- end -}}
{{- else -}}
{{- $days := 3650 -}}
{{- $authority := genCA $name $days -}}
{{- $host := printf "%s.%s.svc.cluster.local" $name .Release.Namespace -}}
{{- $scaler := genSignedCert $host nil (list $host (printf "%s.%s.svc" $name .Release.Namespace)) $days $authority -}}
{{- $keda := genSignedCert "keda" nil nil $days $authority -}}
{{- $made = dict "scaler-ca.crt" $authority.Cert "scaler-tls.crt" $scaler.Cert "scaler-tls.key" $scaler.Key "keda-ca.crt" $authority.Cert "keda-tls.crt" $keda.Cert "keda-tls.key" $keda.Key -}}
{{- end -}}
{{- $_ := set .Values.scaler.tls "made" $made -}}
{{- end -}}
{{- end -}}

{{/* The External Metrics API of the scaler, by which HPAs scale in a cluster without KEDA. */}}

{{- define "rouse.servesExternalMetrics" -}}
{{ (.Values.scaler.externalMetrics | default dict).enabled | default false }}
{{- end -}}

{{- define "rouse.externalMetricsName" -}}
{{ include "rouse.fullname" . }}-external-metrics
{{- end -}}

{{- define "rouse.externalMetricsSecret" -}}
{{ .Values.scaler.externalMetrics.secret | default (include "rouse.externalMetricsName" .) }}
{{- end -}}

{{- define "rouse.externalMetricsMount" -}}
{{- if eq (include "rouse.servesExternalMetrics" .) "true" }}
- name: external-metrics-tls
  mountPath: /etc/rouse/external-metrics-tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "rouse.externalMetricsVolume" -}}
{{- if eq (include "rouse.servesExternalMetrics" .) "true" }}
- name: external-metrics-tls
  secret:
    secretName: {{ include "rouse.externalMetricsSecret" . }}
    defaultMode: 0440
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end }}
{{- end -}}

{{- define "rouse.validateExternalMetrics" -}}
{{- $external := .Values.scaler.externalMetrics | default dict -}}
{{- if ne (empty $external.secret) (empty $external.caBundle) -}}
{{- fail "scaler.externalMetrics: secret and caBundle belong together, set both or, for a certificate that the chart makes, none" -}}
{{- end -}}
{{- if and $external.enabled (not $external.secret) (eq (include "rouse.makesCredentials" .) "false") -}}
{{- fail "scaler.externalMetrics.enabled is true and credentials.madeBy is job: the APIService has to name the authority of the certificate, which a Job makes too late. Set scaler.externalMetrics.secret and caBundle" -}}
{{- end -}}
{{- if and $external.caBundle (not (contains "-----BEGIN CERTIFICATE-----" $external.caBundle)) -}}
{{- fail "scaler.externalMetrics.caBundle has no certificate in PEM: pass the content of a file, with --set-file scaler.externalMetrics.caBundle=/path/to/ca.crt" -}}
{{- end -}}
{{- if $external.enabled -}}
{{- $other := lookup "apiregistration.k8s.io/v1" "APIService" "" "v1beta1.external.metrics.k8s.io" -}}
{{- $service := ($other.spec | default dict).service | default dict -}}
{{- if and $other (ne (printf "%s/%s" .Release.Namespace (include "rouse.externalMetricsName" .)) (printf "%s/%s" $service.namespace $service.name)) -}}
{{- fail (printf "scaler.externalMetrics.enabled is true, but Service %s/%s serves the External Metrics API of this cluster, and there can be one. If it is KEDA's you need no other: KEDA scales Functions. Set scaler.externalMetrics.enabled=false" $service.namespace $service.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
