package externalmetrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// Measure returns a metric of a namespace in thousandths.
type Measure func(ctx context.Context, namespace, metric string, labels map[string]string) (thousandths int64, err error)

// Explain returns the text of an error of Measure, and whether the request was wrong.
type Explain func(err error) (text string, invalid bool)

const groupPath = "/apis/" + v1beta1.GroupName

// handler answers kube-apiserver's proxy.
type handler struct {
	measure Measure
	explain Explain
	log     logr.Logger
}

// NewHandler returns the API without authentication.
func NewHandler(measure Measure, explain Explain, log logr.Logger) http.Handler {
	h := &handler{measure, explain, log}
	version := metav1.GroupVersionForDiscovery{GroupVersion: v1beta1.SchemeGroupVersion.String(), Version: v1beta1.SchemeGroupVersion.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: v1beta1.GroupName,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis", h.always(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group}}))
	mux.HandleFunc("GET "+groupPath, h.always(group))
	// Without the verbs list and delete: the deletion of a namespace asks nothing here.
	mux.HandleFunc("GET "+groupPath+"/v1beta1", h.always(metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.GroupVersion,
		APIResources: []metav1.APIResource{{Name: "externalmetrics", Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}}},
	}))
	mux.HandleFunc("GET "+groupPath+"/v1beta1/namespaces/{namespace}/{metric}", h.metric)
	return mux
}

func (h *handler) always(answer any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { h.write(w, http.StatusOK, answer) }
}

func (h *handler) metric(w http.ResponseWriter, r *http.Request) {
	namespace, metric := r.PathValue("namespace"), r.PathValue("metric")
	selected, err := readSelector(r.URL.Query().Get("labelSelector"))
	if err != nil {
		h.refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	value, err := h.measure(r.Context(), namespace, metric, selected)
	if err != nil {
		text, invalid := h.explain(err)
		h.log.V(1).Info("no value for an autoscaler", "namespace", namespace, "metric", metric, "reason", text)
		if invalid {
			h.refuse(w, apierrors.NewBadRequest(text))
		} else {
			h.refuse(w, apierrors.NewServiceUnavailable(text))
		}
		return
	}
	h.write(w, http.StatusOK, v1beta1.ExternalMetricValueList{
		TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: v1beta1.SchemeGroupVersion.String()},
		Items: []v1beta1.ExternalMetricValue{{
			MetricName: metric, MetricLabels: selected, Timestamp: metav1.NewTime(time.Now()), Value: *resource.NewMilliQuantity(value, resource.DecimalSI),
		}},
	})
}

// readSelector returns the labels that a selector demands, each with one value.
func readSelector(text string) (map[string]string, error) {
	parsed, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the selector cannot be read: %w", err)
	}
	requirements, _ := parsed.Requirements()
	selected := make(map[string]string, len(requirements))
	for _, requirement := range requirements {
		values := requirement.ValuesUnsorted()
		one := requirement.Operator() == selection.Equals || requirement.Operator() == selection.DoubleEquals || requirement.Operator() == selection.In
		if !one || len(values) != 1 {
			return nil, fmt.Errorf("the selector has %q: only matchLabels are supported, with the metadata of a trigger", requirement.String())
		}
		selected[requirement.Key()] = values[0]
	}
	return selected, nil
}

func (h *handler) refuse(w http.ResponseWriter, refusal *apierrors.StatusError) {
	refusal.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	h.write(w, int(refusal.ErrStatus.Code), refusal.ErrStatus)
}

func (h *handler) write(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		h.log.V(1).Info("an answer was cut off", "reason", err.Error())
	}
}
