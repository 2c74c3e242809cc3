{{/* "true" where the dashboard runs in the cluster. Values of an earlier chart do not have it. */}}
{{- define "rouse.servesDashboard" -}}
{{- eq (toString (.Values.dashboard | default dict).enabled) "true" -}}
{{- end -}}

{{/* The issuer at which users of the dashboard log in, as YAML; empty when there is none. */}}
{{- define "rouse.issuer" -}}
{{- $oidc := (.Values.dashboard | default dict).oidc | default dict -}}
{{- if and (eq (include "rouse.servesDashboard" .) "true") $oidc.issuer -}}
{{- $home := $oidc.url -}}
{{- if and (not $home) .Values.dashboard.host -}}
{{- $home = printf "https://%s" .Values.dashboard.host -}}
{{- end -}}
{{- $port := regexFind ":[0-9]+$" (urlParse $oidc.issuer).host | trimPrefix ":" | default "443" -}}
{{- dict "url" $oidc.issuer "clientID" $oidc.clientID "secret" $oidc.secret "name" $oidc.name "scopes" ($oidc.scopes | default list) "home" $home "port" $port "ca" ($oidc.caBundle | default .Values.caBundle) | toYaml -}}
{{- end -}}
{{- end -}}

{{- define "rouse.validateDashboard" -}}
{{- if eq (include "rouse.servesDashboard" .) "true" -}}
{{- if not .Values.eventbridge.admin.enabled -}}
{{- fail "dashboard.enabled is true while eventbridge.admin.enabled is false: the dashboard shows what the admin API reports" -}}
{{- end -}}
{{- if ne (empty .Values.dashboard.host) (empty .Values.dashboard.gateway) -}}
{{- fail "dashboard: host and gateway belong together, set both or none" -}}
{{- end -}}
{{- with include "rouse.issuer" . | fromYaml -}}
{{- if not .clientID -}}
{{- fail "dashboard.oidc.issuer is set without dashboard.oidc.clientID: name the client, which the API server trusts" -}}
{{- end -}}
{{- if not .home -}}
{{- fail "dashboard.oidc.issuer is set without dashboard.oidc.url or dashboard.host: the issuer has to send users back to the dashboard" -}}
{{- end -}}
{{- if and .ca (not (contains "-----BEGIN CERTIFICATE-----" .ca)) -}}
{{- fail "dashboard.oidc.caBundle has no certificate in PEM: pass the content of a file, with --set-file dashboard.oidc.caBundle=/path/to/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
