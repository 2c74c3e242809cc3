package httpload

import "github.com/rouse-run/rouse/internal/activation"

// MetricName is KEDA's metric of calls over HTTP.
const MetricName = "http-concurrency"

// Look is what was seen of a Function's calls at one moment.
type Look struct {
	// Gateways is the sum over the gateways.
	Gateways activation.FunctionLoad
	// Pods are those that were asked, by address.
	Pods map[string]activation.PodLoad
	// Events are those of the Function that are in flight.
	Events uint64
}

// Load counts the calls that wait or run. What pods report as a gateway's or as an event is left out as far as it is
// counted there. An event that was in flight at the look before may still be what a pod reports.
func (l Look) Load(before Look) uint64 {
	var running, viaGateway, viaEventbridge uint64
	for _, pod := range l.Pods {
		ofGateways := min(pod.ViaGateway, pod.Running)
		running += pod.Running
		viaGateway += ofGateways
		viaEventbridge += min(pod.ViaEventbridge, pod.Running-ofGateways)
	}
	elsewhere := min(viaGateway, l.Gateways.Running) + min(viaEventbridge, max(l.Events, before.Events))
	return l.Gateways.Waiting + l.Gateways.Running + running - elsewhere
}

// Moved reports whether a pod has taken calls since the look before. One that was restarted, or that is new and has taken
// some, has; one that is gone has not.
func (l Look) Moved(before Look) bool {
	for address, pod := range l.Pods {
		if pod.Requests != before.Pods[address].Requests {
			return true
		}
	}
	return false
}
