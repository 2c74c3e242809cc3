{{/* The address of NATS and the login. Secrets are mounted as files, never passed as arguments. */}}

{{- define "rouse.natsURL" -}}
{{- if .Values.nats.enabled -}}
nats://{{ include "rouse.fullname" . }}-nats.{{ .Release.Namespace }}.svc.cluster.local:4222
{{- else -}}
{{ .Values.nats.external.url }}
{{- end -}}
{{- end -}}

{{/* The users of the chart's own NATS. */}}
{{- define "rouse.natsUsers" -}}
controller,eventbridge,scaler
{{- end -}}

{{/* Their permissions, as in docs/nats.md, and their passwords, which are in a file of the Secret. */}}
{{- define "rouse.natsAuthorization" -}}
{{ regexReplaceAll "\\bsap\\b" (.Files.Get "files/nats/permissions.conf" | trim) .Values.stream.name }}
include "passwords.conf"
authorization: {
  users: [
    {{- range $user := splitList "," (include "rouse.natsUsers" .) }}
    {user: {{ $user }}, password: $rouse_{{ $user }}_password, permissions: $rouse_{{ $user }}}
    {{- end }}
  ]
}
{{- end -}}

{{/* The file of the passwords. Passwords that an earlier release generated are kept. They are stored beside the values, because each call
would generate others. */}}
{{- define "rouse.natsPasswords" -}}
{{- if not (hasKey .Values.nats.users "passwords") -}}
{{- $known := (lookup "v1" "Secret" .Release.Namespace (printf "%s-nats" (include "rouse.fullname" .))).data | default dict -}}
{{- $passwords := dict -}}
{{- range $user := splitList "," (include "rouse.natsUsers" .) -}}
{{- $_ := set $passwords $user (hasKey $known $user | ternary (get $known $user | b64dec) (randAlphaNum 40)) -}}
{{- end -}}
{{- $_ := set .Values.nats.users "passwords" $passwords -}}
{{- end -}}
{{- range $user, $password := .Values.nats.users.passwords }}
rouse_{{ $user }}_password: {{ $password | quote }}
{{- end }}
{{- end -}}

{{/* The login of one component: as JSON, the flag, the Secret, and the key in it. Each component may have a
separate key, and so the permissions of a separate user. */}}
{{- define "rouse.natsLogin" -}}
{{- $login := dict -}}
{{- if .root.Values.nats.enabled -}}
{{- if .root.Values.nats.users.enabled -}}
{{- $login = dict "flag" "nats-password-file" "secret" (printf "%s-nats" (include "rouse.fullname" .root)) "key" .component "user" .component -}}
{{- end -}}
{{- else -}}
{{- range $name, $flag := dict "credentials" "nats-creds" "nkey" "nats-nkey" "token" "nats-token-file" "password" "nats-password-file" -}}
{{- with get $.root.Values.nats.external $name -}}
{{- if .secret -}}
{{- $key := get (.keys | default dict) $.component | default .key -}}
{{- $login = dict "flag" $flag "secret" .secret "key" $key "user" (eq $name "password" | ternary (.user | default $.component) "") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ $login | toJson }}
{{- end -}}

{{- define "rouse.natsArgs" -}}
- --nats-url={{ include "rouse.natsURL" .root }}
{{- with include "rouse.natsLogin" . | fromJson }}
{{- with .user }}
- --nats-user={{ . }}
{{- end }}
- --{{ .flag }}=/etc/rouse/nats-login/{{ .key }}
{{- end }}
{{- if not .root.Values.nats.enabled }}
{{- with .root.Values.nats.external.tls }}
{{- if and .secret .caKey }}
- --nats-ca=/etc/rouse/nats-tls/{{ .caKey }}
{{- end }}
{{- if and .secret .certKey }}
- --nats-cert=/etc/rouse/nats-tls/{{ .certKey }}
- --nats-key=/etc/rouse/nats-tls/{{ .keyKey }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whole folders, not single files: mounts of single files would not follow a change of the Secret. */}}
{{- define "rouse.natsMounts" -}}
{{- if include "rouse.natsLogin" . | fromJson }}
- name: nats-login
  mountPath: /etc/rouse/nats-login
  readOnly: true
{{- end }}
{{- if and (not .root.Values.nats.enabled) .root.Values.nats.external.tls.secret }}
- name: nats-tls
  mountPath: /etc/rouse/nats-tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "rouse.natsVolumes" -}}
{{- with include "rouse.natsLogin" . | fromJson }}
- name: nats-login
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      - key: {{ .key }}
        path: {{ .key }}
{{- end }}
{{- if not .root.Values.nats.enabled }}
{{- with .root.Values.nats.external.tls.secret }}
- name: nats-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end -}}

{{/* The ports of an external NATS, as a JSON list. */}}
{{- define "rouse.natsPorts" -}}
{{- $ports := list -}}
{{- range splitList "," .Values.nats.external.url -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default "4222" | int) -}}
{{- end -}}
{{ $ports | uniq | toJson }}
{{- end -}}

{{/* What the template of the volume's claim asks for. Kubernetes lets nobody change it, so an upgrade keeps that of the StatefulSet
     that is there: the claim itself is what grows, see NOTES.txt. */}}
{{- define "rouse.natsVolumeSize" -}}
{{- $size := .Values.nats.persistence.size -}}
{{- $known := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-nats" (include "rouse.fullname" .)) -}}
{{- range ($known.spec | default dict).volumeClaimTemplates -}}
{{- $size = .spec.resources.requests.storage -}}
{{- end -}}
{{- $size -}}
{{- end -}}
