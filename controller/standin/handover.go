package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/wake"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// wakeEnds is the time without an announcement, which the scaler repeats every second, after which the next one begins
	// another wake.
	wakeEnds = 2500 * time.Millisecond
	// maxWakes bounds the remembered wakes.
	maxWakes = 10000
	// handoverTimeout bounds a hand-over, and loadTimeout the loading of the handler within it.
	handoverTimeout = 3 * time.Second
	loadTimeout     = 2 * time.Second
	dialTimeout     = 500 * time.Millisecond
	// readyTimeout bounds the wait for a stand-in that is not ready yet. The Function's own pod takes about as long.
	readyTimeout = 500 * time.Millisecond
	readyTick    = 20 * time.Millisecond
	// loadPath is where a stand-in takes the environment of a Function.
	loadPath = "/.well-known/rouse/stand-in"
	// maxPolicies bounds the NetworkPolicies that are compared.
	maxPolicies = 200
)

// The results of a hand-over.
const (
	resultServed     = "served"
	resultIneligible = "ineligible"
	resultNone       = "none_ready"
	resultBusy       = "busy"
	resultFailed     = "failed"
)

// listener hands Functions over when they wake.
type listener struct {
	*Controller
	log logr.Logger

	wakes map[types.NamespacedName]time.Time // the last announcement of each
	under sync.WaitGroup
}

// Start listens until ctx ends.
func (l *listener) Start(ctx context.Context) error {
	defer l.under.Wait()
	return l.announcements.WatchWanted(ctx, func(function types.NamespacedName, _ int) {
		if !l.pool.any(function.Namespace) || !l.begins(function) {
			return
		}
		if !l.places.TryAcquire(function.Namespace, 1) {
			l.metrics.handovers.WithLabelValues(resultBusy).Inc()
			return
		}
		l.under.Go(func() {
			defer l.places.Release(function.Namespace, 1)
			l.wake(ctx, function)
		})
	})
}

// begins reports whether an announcement is the first of a wake.
func (l *listener) begins(function types.NamespacedName) bool {
	now := l.clock.Now()
	last, known := l.wakes[function]
	if !known && len(l.wakes) >= maxWakes {
		clear(l.wakes)
	}
	l.wakes[function] = now
	return !known || now.Sub(last) >= wakeEnds
}

func (l *listener) wake(ctx context.Context, function types.NamespacedName) {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	begun := l.clock.Now()
	log := l.log.WithValues("namespace", function.Namespace, "function", function.Name)
	fn := &v1alpha2.Function{}
	if err := l.client.Get(ctx, function, fn); err != nil {
		return // a forged announcement
	}
	result, pod, err := l.handOver(ctx, fn)
	if result == "" {
		return
	}
	l.metrics.handovers.WithLabelValues(result).Inc()
	switch result {
	case resultServed:
		l.metrics.seconds.Observe(l.clock.Now().Sub(begun).Seconds())
		log.Info("a stand-in serves the function until its own pod is ready", "pod", pod)
		l.recorder.Eventf(fn, nil, corev1.EventTypeNormal, "StandIn", "Wake", "Pod %s serves until a pod of the Function is ready", pod)
	case resultIneligible:
		l.recorder.Eventf(fn, nil, corev1.EventTypeNormal, "NoStandIn", "Wake", "No stand-in serves while the Function starts: %s",
			kube.Truncate(err.Error(), maxNote))
	case resultFailed:
		log.Info("cannot hand the function over to a stand-in", "pod", pod, "reason", err.Error())
	}
}

// handOver returns an empty result where no stand-in is needed.
func (c *Controller) handOver(ctx context.Context, fn *v1alpha2.Function) (result, pod string, err error) {
	deployment := c.sleeping(ctx, fn)
	if deployment == nil {
		return "", "", nil
	}
	environment, err := resources.StandInEnvironment(fn, c.settings(), &deployment.Spec.Template)
	if err == nil {
		err = c.checkPolicies(ctx, fn)
	}
	if err != nil {
		return resultIneligible, "", err
	}
	standIn, key := c.choose(ctx, fn)
	if standIn == nil {
		return resultNone, "", nil
	}
	if err = c.load(ctx, standIn, key, environment); err == nil {
		err = c.serve(ctx, standIn, fn)
	}
	if err != nil { // it may have a part of the Function
		defer c.pool.remove(client.ObjectKeyFromObject(standIn))
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoverTimeout)
		defer cancel()
		return resultFailed, standIn.Name, errors.Join(err, c.delete(deleting, standIn, 0))
	}
	return resultServed, standIn.Name, nil
}

// sleeping returns the Deployment of a Function that KEDA may wake and that nothing serves; otherwise nil.
func (c *Controller) sleeping(ctx context.Context, fn *v1alpha2.Function) *appsv1.Deployment {
	if serves, err := c.serves(ctx, fn); err != nil || serves {
		return nil
	}
	deployment := &appsv1.Deployment{}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(fn), deployment)
	if err != nil || !metav1.IsControlledBy(deployment, fn) || deployment.Status.ReadyReplicas > 0 {
		return nil
	}
	exists, paused, err := wake.Paused(ctx, c.live, client.ObjectKeyFromObject(fn))
	if err != nil || !exists || paused {
		return nil
	}
	return deployment
}

// checkPolicies returns an error when a NetworkPolicy distinguishes the Function's pods from stand-ins.
func (c *Controller) checkPolicies(ctx context.Context, fn *v1alpha2.Function) error {
	policies := &networkingv1.NetworkPolicyList{}
	if err := c.live.List(ctx, policies, client.InNamespace(fn.Namespace), client.Limit(maxPolicies+1)); err != nil {
		return fmt.Errorf("list the NetworkPolicies: %w", err)
	}
	if len(policies.Items) > maxPolicies {
		return fmt.Errorf("the namespace has more than %d NetworkPolicies", maxPolicies)
	}
	return samePolicies(policies.Items, fn)
}

// serves reports whether a stand-in serves the Function.
func (c *Controller) serves(ctx context.Context, fn *v1alpha2.Function) (bool, error) {
	pods := &corev1.PodList{}
	err := c.client.List(ctx, pods, client.InNamespace(fn.Namespace),
		client.MatchingLabels{v1alpha2.LabelStandIn: v1alpha2.StandInServes, v1alpha2.LabelUUID: string(fn.UID)})
	if err != nil {
		return false, fmt.Errorf("list the stand-ins: %w", err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp.IsZero() }), nil
}

// choose takes the oldest ready stand-in of the Function's runtime. It waits a moment for one that is about to be ready.
func (c *Controller) choose(ctx context.Context, fn *v1alpha2.Function) (oldest *corev1.Pod, key string) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyTick)
	defer ticker.Stop()
	for {
		pods := &corev1.PodList{}
		err := c.client.List(ctx, pods, client.InNamespace(fn.Namespace),
			client.MatchingLabels(resources.StandInLabels(v1alpha2.StandInWaits, fn.Spec.Runtime)))
		if err != nil {
			return nil, ""
		}
		oldest, starting := c.oldest(pods.Items)
		if oldest != nil {
			if key, ok := c.pool.take(oldest); ok {
				return oldest, key
			}
			continue // another Function was quicker
		}
		if !starting {
			return nil, ""
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ""
		}
	}
}

// oldest returns the oldest ready stand-in that is not taken, and whether others may become ready.
func (c *Controller) oldest(pods []corev1.Pod) (oldest *corev1.Pod, starting bool) {
	for i := range pods {
		pod := &pods[i]
		switch {
		case !pod.DeletionTimestamp.IsZero() || hasEnded(pod) || c.pool.of(pod) != waits:
		case !isReady(pod) || pod.Status.PodIP == "":
			starting = true
		case oldest == nil || pod.CreationTimestamp.Before(&oldest.CreationTimestamp):
			oldest = pod
		}
	}
	return oldest, starting
}

// load returns once the stand-in has loaded the handler and serves.
func (c *Controller) load(ctx context.Context, pod *corev1.Pod, key string, environment map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"key": key, "environment": environment})
	if err != nil {
		return fmt.Errorf("encode the hand-over: %w", err)
	}
	address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(c.port))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+loadPath, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request for the hand-over: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("hand over to pod %s, which loads the handler: %w", pod.Name, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusNoContent {
		const enough = 200
		reason, _ := io.ReadAll(io.LimitReader(response.Body, enough))
		return fmt.Errorf("hand over to pod %s: it answered %d: %q", pod.Name, response.StatusCode, reason)
	}
	return nil
}

// newHTTPClient returns a client that dials what it is told to and follows no redirect.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// serve has the Function's Service select the stand-in.
func (c *Controller) serve(ctx context.Context, pod *corev1.Pod, fn *v1alpha2.Function) error {
	patch, err := json.Marshal(servicePatch(pod, fn, c.clock.Now()))
	if err != nil {
		return fmt.Errorf("encode the labels of a stand-in: %w", err)
	}
	if err := c.client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("label pod %s as the Function's: %w", pod.Name, err)
	}
	return nil
}
