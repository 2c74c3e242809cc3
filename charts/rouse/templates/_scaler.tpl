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
