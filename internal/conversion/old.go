package conversion

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oldAPIRule is an APIRule of an old version, as far as it is read.
type oldAPIRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   oldSpec   `json:"spec"`
	Status oldStatus `json:"status"`
}

type oldSpec struct {
	Host       string          `json:"host"`
	Gateway    string          `json:"gateway"`
	Service    *oldService     `json:"service"`
	Timeout    json.RawMessage `json:"timeout"`
	CORSPolicy *oldCORSPolicy  `json:"corsPolicy"`
	Rules      []oldRule       `json:"rules"`
}

type oldService struct {
	// Host is that of the APIRule in v1alpha1.
	Host      string `json:"host"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Port      int32  `json:"port"`
	External  *bool  `json:"external"`
}

type oldCORSPolicy struct {
	AllowOrigins     []map[string]string `json:"allowOrigins"`
	AllowMethods     []string            `json:"allowMethods"`
	AllowHeaders     []string            `json:"allowHeaders"`
	AllowCredentials *bool               `json:"allowCredentials"`
	ExposeHeaders    []string            `json:"exposeHeaders"`
	// MaxAge is a duration such as 10m.
	MaxAge string `json:"maxAge"`
}

type oldRule struct {
	Path             string          `json:"path"`
	Service          *oldService     `json:"service"`
	Methods          []string        `json:"methods"`
	AccessStrategies []oldHandler    `json:"accessStrategies"`
	Mutators         []oldHandler    `json:"mutators"`
	Timeout          json.RawMessage `json:"timeout"`
}

// oldHandler is one of Ory Oathkeeper, or of Kyma.
type oldHandler struct {
	Name   string          `json:"handler"`
	Config json.RawMessage `json:"config"`
}

type oldStatus struct {
	LastProcessedTime *metav1.Time `json:"lastProcessedTime"`
	APIRuleStatus     struct {
		Code        string `json:"code"`
		Description string `json:"desc"`
	} `json:"APIRuleStatus"`
}
