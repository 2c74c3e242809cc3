package framework

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Web is a web server in Node.js that is no Function, and that HTTP requests to its Service wake.
type Web struct {
	Name string
	// Answer is the body of an async function of request and body, which returns the response's text.
	Answer string
	// Reports has the server report its load. Otherwise all requests pass the gateways, which count them.
	Reports bool
	// Silent is a server that is to report its load and does not.
	Silent bool
	// Annotations of the Service are added to those of Fast.
	Annotations map[string]string
}

// webServer reports its load as docs/workloads.md says. On SIGTERM it ends its connections.
const webServer = `
const http = require('http')
const load = { requests: 0, running: 0, viaGateway: 0, viaEventbridge: 0 }
const ways = { gateway: 'viaGateway', eventbridge: 'viaEventbridge' }
const answer = async (request, body) => { %s }
const server = http.createServer(async (request, response) => {
  if (request.url === '/.well-known/rouse/load') {
    if (!process.env.REPORTS) response.statusCode = 404
    return response.end(JSON.stringify(load))
  }
  const way = ways[request.headers['rouse-via']]
  load.requests++
  load.running++
  if (way) load[way]++
  response.on('close', () => {
    load.running--
    if (way) load[way]--
  })
  let body = ''
  for await (const part of request) body += part
  try {
    response.end(await answer(request, body))
  } catch (err) {
    response.statusCode = 500
    response.end(String(err))
  }
})
server.listen(8080)
process.on('SIGTERM', () => server.close())
`

// ApplyWeb applies a server with its Service.
func (c *Cluster) ApplyWeb(ctx context.Context, namespace string, web Web) error {
	image, err := c.RuntimeImage(ctx, nodeRuntime)
	if err != nil {
		return err
	}
	return c.ApplyYAML(ctx, namespace, web.yaml(image))
}

// webDeployment is the Deployment of a server; its name, image and program are to be set.
const webDeployment = `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 60
      containers:
        - name: server
          image: IMAGE
          command: [node, -e, PROGRAM]
          env: [{name: REPORTS, value: "REPORTING"}]
          ports: [{containerPort: 8080}]
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
          lifecycle: {preStop: {sleep: {seconds: 3}}}
          resources: {requests: {cpu: 20m, memory: 32Mi}, limits: {memory: 256Mi}}
          securityContext:
            runAsNonRoot: true
            runAsUser: 1000
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            seccompProfile: {type: RuntimeDefault}
`

func (w Web) yaml(image string) string {
	annotations := Fast()
	maps.Copy(annotations, map[string]string{"rouse.run/scale-target": "deployment/" + w.Name, "rouse.run/http-wake": "enabled"})
	maps.Copy(annotations, w.Annotations)
	targetPort, reporting := any("rouse-8080"), ""
	if w.Reports || w.Silent {
		targetPort = 8080
	}
	if w.Reports {
		reporting = "yes"
	}
	service := document("v1", "Service", w.Name, annotations, map[string]any{
		"selector": map[string]any{"app": w.Name}, "ports": []any{map[string]any{"port": 80, "targetPort": targetPort}},
	})
	return service + strings.NewReplacer(
		"NAME", w.Name, "IMAGE", image, "PROGRAM", strconv.Quote(fmt.Sprintf(webServer, w.Answer)), "REPORTING", reporting,
	).Replace(webDeployment)
}

// RuntimeImage returns the image of a runtime on the cluster, which has no other images with an interpreter.
func (c *Cluster) RuntimeImage(ctx context.Context, runtime string) (string, error) {
	controller := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: System, Name: "rouse-controller"}, controller); err != nil {
		return "", fmt.Errorf("read the controller's images: %w", err)
	}
	for _, arg := range controller.Spec.Template.Spec.Containers[0].Args {
		if _, image, found := strings.Cut(arg, runtime+"="); found {
			image, _, _ = strings.Cut(image, ",")
			return image, nil
		}
	}
	return "", fmt.Errorf("the controller has no image of %s", runtime)
}
