package standin

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

const (
	// maxPrepared bounds the environments of a namespace in memory, and maxPreparedBytes those of all. Beyond, they are read when
	// a Function wakes.
	maxPrepared      = 100
	maxPreparedBytes = 16 << 20
)

// environment is what a stand-in needs to serve a Function, or why none can.
type environment struct {
	template  string // the AnnotationTemplate of the Deployment that it comes from
	settings  *resources.Settings
	variables map[string]string
	err       error
}

func (e environment) bytes() int {
	n := len(e.template)
	for name, value := range e.variables {
		n += len(name) + len(value)
	}
	return n
}

// environments holds what stand-ins need, so that nothing has to be read while a pod starts, when each read takes as long as the
// loading of a handler.
type environments struct {
	mu     sync.Mutex
	of     map[string]map[types.UID]environment // by namespace
	length int
}

func newEnvironments() *environments {
	return &environments{of: map[string]map[types.UID]environment{}}
}

// get returns the environment if it comes from the template and the settings.
func (e *environments) get(fn *v1alpha2.Function, template string, settings *resources.Settings) (environment, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found, ok := e.of[fn.Namespace][fn.UID]
	return found, ok && found.template == template && found.settings == settings
}

// put keeps an environment if there is room.
func (e *environments) put(fn *v1alpha2.Function, prepared environment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	namespace := e.of[fn.Namespace]
	before, had := namespace[fn.UID]
	length := e.length + prepared.bytes() - before.bytes()
	if !had && len(namespace) >= maxPrepared || length > maxPreparedBytes {
		return
	}
	if namespace == nil {
		namespace = map[types.UID]environment{}
		e.of[fn.Namespace] = namespace
	}
	namespace[fn.UID], e.length = prepared, length
}

// keep forgets the Functions of a namespace that are not listed.
func (e *environments) keep(namespace string, listed map[types.UID]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, prepared := range e.of[namespace] {
		if !listed[uid] {
			e.length -= prepared.bytes()
			delete(e.of[namespace], uid)
		}
	}
	if len(e.of[namespace]) == 0 {
		delete(e.of, namespace)
	}
}

// prepare reads the environments of a namespace's Functions that scale, where they have changed; of none where it has no stand-ins.
func (c *Controller) prepare(ctx context.Context, namespace string, any bool) error {
	functions, listed := &v1alpha2.FunctionList{}, map[types.UID]bool{}
	if any {
		if err := c.client.List(ctx, functions, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the Functions: %w", err)
		}
	}
	for i := range functions.Items {
		fn := &functions.Items[i]
		if fn.Spec.ScaleConfig == nil || len(listed) >= maxPrepared {
			continue
		}
		listed[fn.UID] = true
		template := c.template(ctx, fn)
		if _, ok := c.prepared.get(fn, template, c.settings()); ok || template == "" {
			continue
		}
		if _, err := c.read(ctx, fn); err != nil {
			return err
		}
	}
	c.prepared.keep(namespace, listed)
	return nil
}

// template returns the hash of the pods of a Function's Deployment, as the cache shows it, or "" without one that is the Function's.
func (c *Controller) template(ctx context.Context, fn *v1alpha2.Function) string {
	deployment := &appsv1.Deployment{}
	err := c.client.Get(ctx, client.ObjectKeyFromObject(fn), deployment, client.UnsafeDisableDeepCopy)
	if err != nil || !metav1.IsControlledBy(deployment, fn) {
		return ""
	}
	return deployment.Spec.Template.Annotations[resources.AnnotationTemplate]
}

// read reads the environment of a Function from its Deployment, and keeps it.
func (c *Controller) read(ctx context.Context, fn *v1alpha2.Function) (environment, error) {
	deployment, settings := &appsv1.Deployment{}, c.settings()
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(fn), deployment); err != nil {
		return environment{}, fmt.Errorf("read the Deployment of the Function: %w", err)
	}
	found := environment{template: deployment.Spec.Template.Annotations[resources.AnnotationTemplate], settings: settings}
	found.variables, found.err = resources.StandInEnvironment(fn, settings, &deployment.Spec.Template)
	c.prepared.put(fn, found)
	return found, nil
}
