{{- define "tailrace.labels" -}}
app.kubernetes.io/name: tailrace-{{ .role }}
app.kubernetes.io/part-of: tailrace
{{- end }}

{{- define "tailrace.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tailrace.sinkImage" -}}
{{ .Values.image.repository }}-sink:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The name has a hash of the settings, so that a changed setting starts a rolling update. */ -}}
{{- define "tailrace.settings" -}}
tailrace-{{ .Values.settings | toJson | sha256sum | trunc 10 }}
{{- end }}

{{- define "tailrace.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tailrace.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* A deployment and its disruption budget: role, root, and what the role adds. */ -}}
{{- define "tailrace.role" -}}
{{- $values := index .root.Values .role -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: tailrace-{{ .role }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "tailrace.labels" . | nindent 4 }}
spec:
  {{- if not (get . "scaled") }}
  replicas: {{ $values.replicas }}
  {{- end }}
  minReadySeconds: 10
  strategy:
    {{- if (get . "claim") }}
    type: Recreate # a volume is mounted by one pod
    {{- else }}
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
    {{- end }}
  selector:
    matchLabels: {app.kubernetes.io/name: tailrace-{{ .role }}}
  template:
    metadata:
      labels: {{- include "tailrace.labels" . | nindent 8 }}
    spec:
      serviceAccountName: tailrace
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      securityContext: {{- include "tailrace.podSecurity" . | nindent 8 }}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: {{ .root.Values.spreadOverZones }}
        labelSelector:
          matchLabels: {app.kubernetes.io/name: tailrace-{{ .role }}}
        matchLabelKeys: [pod-template-hash]
      containers:
      - name: {{ .role }}
        {{- if eq .role "sink" }}
        image: {{ include "tailrace.sinkImage" .root }}
        {{- else }}
        image: {{ include "tailrace.image" .root }}
        args: [{{ .role }}]
        {{- end }}
        envFrom:
        - configMapRef: {name: {{ include "tailrace.settings" .root }}}
        {{- with (get . "secret") }}
        - secretRef: {name: {{ . }}}
        {{- end }}
        env: {{- toYaml $values.env | nindent 8 }}
        ports:
        {{- if (get . "http") }}
        - {name: http, containerPort: 4480}
        {{- end }}
        - {name: ops, containerPort: 4481}
        startupProbe:
          httpGet: {path: /startupz, port: ops}
          periodSeconds: 2
          failureThreshold: 60
        livenessProbe:
          httpGet: {path: /livez, port: ops}
          periodSeconds: 10
          timeoutSeconds: 5
        readinessProbe:
          httpGet: {path: /readyz, port: ops}
          periodSeconds: {{ ternary 2 5 (hasKey . "http") }}
        {{- if (get . "http") }}
        lifecycle:
          preStop:
            sleep: {seconds: 5} # new connections may arrive until each balancer has removed the pod
        {{- end }}
        resources: {{- toYaml $values.resources | nindent 10 }}
        securityContext: {{- include "tailrace.containerSecurity" . | nindent 10 }}
        volumeMounts:
        {{- with (get . "claim") }}
        - {name: lake, mountPath: /lake}
        {{- end }}
        - {name: nats, mountPath: /etc/tailrace/nats, readOnly: true}
        {{- with (get . "volume") }}
        - {name: {{ .name }}, mountPath: /etc/tailrace/{{ .name }}, readOnly: true}
        {{- end }}
      volumes:
      {{- with (get . "claim") }}
      - name: lake
        persistentVolumeClaim: {claimName: {{ . }}}
      {{- end }}
      - name: nats
        secret: {secretName: tailrace-nats-{{ get . "user" | default .role }}}
      {{- with (get . "volume") }}
      - {{ toYaml . | nindent 8 | trim }}
      {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: tailrace-{{ .role }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "tailrace.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {app.kubernetes.io/name: tailrace-{{ .role }}}
{{- end }}
