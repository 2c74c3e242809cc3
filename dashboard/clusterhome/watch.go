package clusterhome

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dashboard/alerts"
	"github.com/rouse-run/rouse/eventbridge/identity"
)

const (
	// watchEvery is the interval of readings of metrics, and watchTimeout bounds one.
	watchEvery   = 30 * time.Second
	watchTimeout = 10 * time.Second
	// mostMetrics bounds what a pod reports, 140,000 series or so, and atATime the pods that are read beside each other.
	mostMetrics = 16 << 20
	atATime     = 2
)

// Watch reads the metrics of all processes of Rouse until ctx ends, whoever is logged in, because alerts have a past.
func (p *Process) Watch(ctx context.Context) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := p.observe(ctx); err != nil && ctx.Err() == nil {
			p.deps.Log.Info("cannot find the metrics that alerts are made of", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// observe reads each pod once. One that does not answer is read again the next time.
func (p *Process) observe(ctx context.Context) error {
	urls, err := p.deps.Own.MetricsURLs(ctx)
	if err != nil {
		return err
	}
	var (
		mu       sync.Mutex
		readings []alerts.Reading
		reading  sync.WaitGroup
		turns    = make(chan struct{}, atATime)
	)
	for pod, address := range urls {
		reading.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			found, err := readMetrics(ctx, pod, address)
			if err != nil {
				if ctx.Err() == nil {
					p.deps.Log.V(1).Info("cannot read the metrics of a pod", "pod", pod, "reason", err.Error())
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			readings = append(readings, found)
		})
	}
	reading.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.watch.Observe(time.Now(), readings, slices.Collect(maps.Keys(urls)))
	return nil
}

// readMetrics reads the metrics of a pod that alerts need.
func readMetrics(ctx context.Context, pod, address string) (alerts.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?"+url.Values{"name[]": alerts.Names()}.Encode(), nil)
	if err != nil {
		return alerts.Reading{}, err
	}
	response, err := metricsClient.Do(request)
	if err != nil {
		return alerts.Reading{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read from
	if response.StatusCode != http.StatusOK {
		return alerts.Reading{}, fmt.Errorf("metrics of pod %s: it answers with %s", pod, response.Status)
	}
	return alerts.Decode(pod, http.MaxBytesReader(nil, response.Body, mostMetrics))
}

// metricsClient asks pods, which send nobody elsewhere.
var metricsClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// mostAlerts bounds what a user is shown.
const mostAlerts = 200

// Alerts implements dashboard.Watcher. Who sees one namespace sees its alerts, and no others.
func (h *Home) Alerts(ctx context.Context, _ dashboard.User) *alerts.State {
	if h.served == nil || h.may(ctx, identity.ListSubscriptions(h.namespace)) != nil {
		return nil
	}
	return h.served.process.watch.State(h.namespace, mostAlerts)
}

// fills returns how full the streams are, which concerns those who see all namespaces.
func (h *Home) fills() []dashboard.Stream {
	found := []dashboard.Stream{}
	if h.served == nil || h.namespace != "" {
		return found
	}
	for _, each := range h.served.process.watch.Fills() {
		found = append(found, dashboard.Stream{Name: each.Stream, Fill: each.Ratio})
	}
	return found
}

// Alerts implements dashboard.Watcher.
func (everyone) Alerts(ctx context.Context, user dashboard.User) *alerts.State {
	home, err := homeOf(user)
	if err != nil {
		return nil
	}
	return home.Alerts(ctx, user)
}
