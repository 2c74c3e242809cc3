{{/* Checks beyond the schema: values that contradict each other. */}}
{{- define "rouse.validate" -}}
{{- $nats := .Values.nats -}}
{{- if and $nats.enabled $nats.external.url -}}
{{- fail "nats.external.url is set while nats.enabled is true: set nats.enabled=false to use an external NATS" -}}
{{- end -}}
{{- if not (or $nats.enabled $nats.external.url) -}}
{{- fail "nats.enabled is false: set nats.external.url to the NATS to use, e.g. nats://nats.example.com:4222" -}}
{{- end -}}
{{- $logins := list -}}
{{- range $name := list "credentials" "nkey" "token" "password" -}}
{{- if (get $nats.external $name | default dict).secret -}}
{{- $logins = append $logins (printf "nats.external.%s" $name) -}}
{{- end -}}
{{- end -}}
{{- if gt (len $logins) 1 -}}
{{- fail (printf "%s are set: NATS takes one of them (a client certificate may stand beside it)" (join " and " $logins)) -}}
{{- end -}}
{{- with $nats.external.tls -}}
{{- if ne (empty .certKey) (empty .keyKey) -}}
{{- fail "nats.external.tls: certKey and keyKey belong together, set both or none" -}}
{{- end -}}
{{- if and .certKey (not .secret) -}}
{{- fail "nats.external.tls.certKey is set: set nats.external.tls.secret to the Secret that holds the certificate" -}}
{{- end -}}
{{- end -}}
{{- include "rouse.validateRegistry" . -}}
{{- with .Values.builds -}}
{{- if gt (int (.perNamespace | default 0)) (int .maxSimultaneous) -}}
{{- fail (printf "builds.perNamespace (%d) is more than builds.maxSimultaneous (%d)" (int .perNamespace) (int .maxSimultaneous)) -}}
{{- end -}}
{{- end -}}
{{- include "rouse.validateKyma" . -}}
{{- include "rouse.validateAPIRules" . -}}
{{- include "rouse.validateV1alpha1" . -}}
{{- include "rouse.validateExternalMetrics" . -}}
{{- include "rouse.validateStoredVersions" . -}}
{{- include "rouse.validateKeptCRDs" . -}}
{{- include "rouse.validateOperator" . -}}
{{- include "rouse.validateDashboard" . -}}
{{- if and (include "rouse.standIns" .) (eq (include "rouse.operated" .) "true") -}}
{{- fail "functions.standIns.perNamespace is set while operator.enabled is true: stand-ins need the Function controller of the chart" -}}
{{- end -}}
{{- with .Values.scaler.tls -}}
{{- if ne (empty .secret) (empty .kedaSecret) -}}
{{- fail "scaler.tls: secret and kedaSecret belong together, set both or, for certificates that the chart makes, none" -}}
{{- end -}}
{{- if and .secret (not .enabled) -}}
{{- fail "scaler.tls.secret is set: set scaler.tls.enabled too" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.sinks.ca.configMap .Values.sinks.ca.secret -}}
{{- fail "sinks.ca.configMap and sinks.ca.secret are set: set only one of them" -}}
{{- end -}}
{{- if gt (include "rouse.bytes" .Values.eventbridge.maxReplySize | int64) (include "rouse.bytes" "64Mi" | int64) -}}
{{- fail (printf "eventbridge.maxReplySize (%s) is more than NATS ever takes: at most 64Mi" .Values.eventbridge.maxReplySize) -}}
{{- end -}}
{{- if lt (include "rouse.bytes" .Values.eventbridge.delivery.maxBytes | int64) (include "rouse.bytes" "16Mi" | int64) -}}
{{- fail (printf "eventbridge.delivery.maxBytes (%s) is too small: at least 16Mi" .Values.eventbridge.delivery.maxBytes) -}}
{{- end -}}
{{- range $size := list "maxRequestSize" "maxBatchSize" -}}
{{- if gt (include "rouse.bytes" (get $.Values.eventbridge $size) | int64) (include "rouse.bytes" $.Values.eventbridge.publishes.maxBytes | int64) -}}
{{- fail (printf "eventbridge.publishes.maxBytes (%s) is smaller than eventbridge.%s (%s)" $.Values.eventbridge.publishes.maxBytes $size (get $.Values.eventbridge $size)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.caBundle (not (contains "-----BEGIN CERTIFICATE-----" .Values.caBundle)) -}}
{{- fail "caBundle has no certificate in PEM: pass the content of a file, with --set-file caBundle=/path/to/ca.crt" -}}
{{- end -}}
{{- if $nats.enabled -}}
{{- if gt (int .Values.stream.replicas) 1 -}}
{{- fail "stream.replicas is larger than 1, but the chart's own NATS has one replica: set nats.enabled=false and nats.external.url" -}}
{{- end -}}
{{- $store := include "rouse.bytes" $nats.maxFileStore | int64 -}}
{{- $needed := add (include "rouse.bytes" .Values.stream.maxBytes) (include "rouse.bytes" .Values.retries.maxBytes) (include "rouse.bytes" .Values.deadLetters.maxBytes) (include "rouse.bytes" .Values.delayed.maxBytes) 33554432 -}}
{{- if lt $store $needed -}}
{{- fail (printf "nats.maxFileStore (%s) is smaller than stream.maxBytes (%s), retries.maxBytes (%s), deadLetters.maxBytes (%s), delayed.maxBytes (%s) and 32Mi for Schedules and Doors together" $nats.maxFileStore .Values.stream.maxBytes .Values.retries.maxBytes .Values.deadLetters.maxBytes .Values.delayed.maxBytes) -}}
{{- end -}}
{{- if le (include "rouse.bytes" $nats.persistence.size | int64) $store -}}
{{- fail (printf "nats.persistence.size (%s) must be larger than nats.maxFileStore (%s)" $nats.persistence.size $nats.maxFileStore) -}}
{{- end -}}
{{/* For an external NATS, the controller makes the same check when it connects and learns the limit. */}}
{{- if lt (include "rouse.bytes" .Values.deadLetters.maxBytes | int64) (add (include "rouse.bytes" $nats.maxPayload) 1024) -}}
{{- fail (printf "deadLetters.maxBytes (%s) is less than one dead letter may need: nats.maxPayload (%s) and 1Ki" .Values.deadLetters.maxBytes $nats.maxPayload) -}}
{{- end -}}
{{/* Binary data is encoded as base64, which adds a third; the event's attributes need additional space. */}}
{{- $largest := add (div (mul 4 (include "rouse.bytes" .Values.eventbridge.maxRequestSize)) 3) 16384 -}}
{{- if lt (include "rouse.bytes" $nats.maxPayload | int64) $largest -}}
{{- fail (printf "nats.maxPayload (%s) does not fit an event of eventbridge.maxRequestSize (%s): it needs four thirds of that and 16Ki" $nats.maxPayload .Values.eventbridge.maxRequestSize) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rouse.validateRegistry" -}}
{{- $external := .Values.registry.external -}}
{{- if $external.existingSecret -}}
{{- range $key := list "registryAddress" "serverAddress" "username" "password" -}}
{{- if get $external $key -}}
{{- fail (printf "registry.external.existingSecret and registry.external.%s are set: what the Secret has is not said here, set only one of them" $key) -}}
{{- end -}}
{{- end -}}
{{- else if not $external.registryAddress -}}
{{- range $key := list "serverAddress" "username" "password" "insecure" -}}
{{- if get $external $key -}}
{{- fail (printf "registry.external.%s is set, but no registry: set registry.external.registryAddress, e.g. registry.example.com/functions" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if ne (empty $external.username) (empty $external.password) -}}
{{- fail "registry.external: username and password belong together, set both or, for a registry with anonymous access, none" -}}
{{- end -}}
{{- $internal := .Values.registry.internal -}}
{{- if and (eq (include "rouse.registry" .) "internal") (not $internal.nodePort) (not $internal.pullAddress) -}}
{{- fail "registry.internal.nodePort is 0: set registry.internal.pullAddress to the host:port by which nodes reach the registry" -}}
{{- end -}}
{{- end -}}
