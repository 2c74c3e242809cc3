package standin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
		if err != nil {
			log.Error(err, "cannot find out whether the function needs a stand-in")
		}
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
	template, err := c.sleeping(ctx, fn)
	if err != nil || template == "" {
		return "", "", err
	}
	prepared, ok := c.prepared.get(fn, template, c.settings())
	if !ok {
		if prepared, err = c.read(ctx, fn); err != nil {
			return "", "", err
		}
	}
	if err = cmp.Or(prepared.err, c.checkPolicies(ctx, fn)); err != nil {
		return resultIneligible, "", err
	}
	standIn, key := c.choose(ctx, fn)
	if standIn == nil {
		return resultNone, "", nil
	}
	paused := make(chan error, 1)
	go func() { paused <- c.checkPaused(ctx, fn) }()
	err = c.load(ctx, standIn, key, prepared.variables)
	if err = cmp.Or(err, <-paused); err == nil {
		err = c.serve(ctx, standIn, fn)
	}
	if err != nil { // it may have a part of the Function
		defer c.pool.remove(client.ObjectKeyFromObject(standIn))
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoverTimeout)
		defer cancel()
		return resultFailed, standIn.Name, errors.Join(err, c.end(deleting, standIn, 0))
	}
	return resultServed, standIn.Name, nil
}

// sleeping returns the template of a Function's Deployment when nothing serves the Function. The cache is as good as what the
// scaler has announced.
func (c *Controller) sleeping(ctx context.Context, fn *v1alpha2.Function) (template string, err error) {
	if serves, err := c.serves(ctx, fn); err != nil || serves {
		return "", err
	}
	deployment := &appsv1.Deployment{}
	err = c.client.Get(ctx, client.ObjectKeyFromObject(fn), deployment)
	if err != nil || !metav1.IsControlledBy(deployment, fn) || deployment.Status.ReadyReplicas > 0 {
		return "", client.IgnoreNotFound(err)
	}
	return deployment.Spec.Template.Annotations[resources.AnnotationTemplate], nil
}

// checkPolicies returns an error when a NetworkPolicy distinguishes the Function's pods from stand-ins.
func (c *Controller) checkPolicies(ctx context.Context, fn *v1alpha2.Function) error {
	policies := &networkingv1.NetworkPolicyList{}
	if err := c.client.List(ctx, policies, client.InNamespace(fn.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the NetworkPolicies: %w", err)
	}
	return samePolicies(policies.Items, fn)
}

var errPaused = errors.New("nothing scales the Function, or its ScaledObject is paused: its events wait")

// checkPaused asks the API server while the handler loads.
func (c *Controller) checkPaused(ctx context.Context, fn *v1alpha2.Function) error {
	keda, err := kube.KEDAInstalled(ctx, c.client)
	if err != nil {
		return err
	}
	scaled, err := wake.ReadScaled(ctx, c.live, client.ObjectKeyFromObject(fn), keda)
	if err == nil && (scaled == nil || scaled.Paused) {
		return errPaused
	}
	return err
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
	address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(resources.Port))
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

// serve has the Function's Service lead to the stand-in: first by a slice of this controller, and then by its labels, after
// which Kubernetes' own controller writes one. That takes longer by the half.
func (c *Controller) serve(ctx context.Context, pod *corev1.Pod, fn *v1alpha2.Function) error {
	if err := c.client.Create(ctx, sliceOf(pod, fn)); err != nil {
		return fmt.Errorf("list pod %s among the Function's endpoints: %w", pod.Name, err)
	}
	patch, err := json.Marshal(servicePatch(pod, fn, c.clock.Now()))
	if err != nil {
		return fmt.Errorf("encode the labels of a stand-in: %w", err)
	}
	if err := c.client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("label pod %s as the Function's: %w", pod.Name, err)
	}
	return nil
}

// sliceManager marks the EndpointSlices that lead to stand-ins until Kubernetes' own do.
const sliceManager = "stand-in.rouse.run"

func sliceOf(pod *corev1.Pod, fn *v1alpha2.Function) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if strings.Contains(pod.Status.PodIP, ":") {
		family = discoveryv1.AddressTypeIPv6
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name,
			Labels:          map[string]string{discoveryv1.LabelServiceName: fn.Name, discoveryv1.LabelManagedBy: sliceManager},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		AddressType: family,
		Ports:       []discoveryv1.EndpointPort{{Name: new(resources.PortName), Port: new(int32(resources.Port)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{pod.Status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}},
	}
}
