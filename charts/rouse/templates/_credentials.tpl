{{/* The generator of passwords and certificates for which the user has no Secret: the chart, or a Job in the cluster. */}}

{{/* "true" when the chart generates them. */}}
{{- define "rouse.makesCredentials" -}}
{{ ne ((.Values.credentials | default dict).madeBy | default "chart") "job" }}
{{- end -}}

{{/* The namespaces, as JSON, in which the Job writes the Secrets of these names. Empty: no Job is needed. */}}
{{- define "rouse.jobSecrets" -}}
{{- $name := include "rouse.fullname" . -}}
{{- $secrets := list -}}
{{- $kedas := list -}}
{{- if eq (include "rouse.makesCredentials" .) "false" -}}
{{- $secrets = append $secrets (printf "%s-eventbridge" $name) -}}
{{- if and .Values.nats.enabled .Values.nats.users.enabled -}}
{{- $secrets = append $secrets (printf "%s-nats" $name) -}}
{{- end -}}
{{- if eq (include "rouse.registry" .) "internal" -}}
{{- $secrets = append $secrets (printf "%s-registry" $name) -}}
{{- end -}}
{{- if and .Values.scaler.tls.enabled (not .Values.scaler.tls.secret) -}}
{{- $secrets = append $secrets (printf "%s-scaler" $name) -}}
{{- $kedas = append $kedas (printf "%s-scaler-keda" $name) -}}
{{- end -}}
{{- end -}}
{{- $all := list -}}
{{- with $secrets -}}
{{- $all = append $all (dict "namespace" $.Release.Namespace "names" .) -}}
{{- end -}}
{{- with $kedas -}}
{{- $all = append $all (dict "namespace" $.Values.keda.namespace "names" .) -}}
{{- end -}}
{{ $all | toJson }}
{{- end -}}

{{- define "rouse.credentialsPod" -}}
{{- $scope := dict "root" . "component" "credentials" -}}
metadata:
  {{- include "rouse.podTemplateMetadata" $scope | nindent 2 }}
spec:
  restartPolicy: OnFailure
  serviceAccountName: {{ include "rouse.name" $scope }}
  enableServiceLinks: false
  securityContext:
    {{- include "rouse.podSecurityContext" . | nindent 4 }}
  {{- include "rouse.scheduling" $scope | nindent 2 }}
  containers:
    - name: credentials
      image: {{ include "rouse.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [/controller, credentials]
      args:
        - --release={{ include "rouse.fullname" . }}
        - --namespace={{ .Release.Namespace }}
        {{- if and .Values.nats.enabled .Values.nats.users.enabled }}
        - --nats-users={{ include "rouse.natsUsers" . }}
        {{- end }}
        {{- if eq (include "rouse.registry" .) "internal" }}
        - --registry-push-address={{ include "rouse.registryPushAddress" . }}
        - --registry-pull-address={{ include "rouse.registryPullAddress" . }}
        {{- end }}
        {{- if and .Values.scaler.tls.enabled (not .Values.scaler.tls.secret) }}
        - --keda-namespace={{ .Values.keda.namespace }}
        {{- end }}
        {{- with include "rouse.fipsArg" . }}
        {{- . | nindent 8 }}
        {{- end }}
      {{- with include "rouse.processEnv" (dict "root" . "resources" dict) }}
      {{- . | nindent 6 }}
      {{- end }}
      securityContext:
        {{- include "rouse.containerSecurityContext" . | nindent 8 }}
      resources:
        requests: {cpu: 20m, memory: 32Mi}
        limits: {memory: 128Mi}
{{- end -}}

{{/* The certificate that the chart generates for the API server's calls of a Service (name), from an authority without a stored key. A
certificate of an earlier release is kept. It is stored beside the values, because each call would generate another. */}}
{{- define "rouse.servingCertificate" -}}
{{- $values := .values -}}
{{- if not (hasKey $values "made") -}}
{{- $name := .name -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $before := (lookup "v1" "Secret" $namespace $name).data | default dict -}}
{{- $made := dict -}}
{{- if and (hasKey $before "ca.crt") (hasKey $before "tls.crt") (hasKey $before "tls.key") -}}
{{- range $key := list "ca.crt" "tls.crt" "tls.key" -}}
{{- $_ := set $made $key (get $before $key | b64dec) -}}
{{- end -}}
{{- else -}}
{{- $days := 3650 -}}
{{- $authority := genCA $name $days -}}
{{- $host := printf "%s.%s.svc" $name $namespace -}}
{{- $signed := genSignedCert $host nil (list $host) $days $authority -}}
{{- $made = dict "ca.crt" $authority.Cert "tls.crt" $signed.Cert "tls.key" $signed.Key -}}
{{- end -}}
{{- $_ := set $values "made" $made -}}
{{- end -}}
{{- end -}}
