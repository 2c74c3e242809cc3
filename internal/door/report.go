package door

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Report is what a replica tells about the requests to a Door since its last report. Zero times: there was none.
type Report struct {
	Accepted time.Time `json:"accepted,omitzero"`
	Refused  time.Time `json:"refused,omitzero"`
	// Reason is why it was refused, for the owner.
	Reason  string    `json:"reason,omitempty"`
	Key     string    `json:"key,omitempty"`
	KeyUsed time.Time `json:"keyUsed,omitzero"`
	// Expires is when the last client's certificate ends.
	Expires time.Time `json:"expires,omitzero"`
}

const mostReason = 256

// EncodeReports returns the reports of Doors, by their UIDs, as replicas announce them.
func EncodeReports(reports map[types.UID]*Report) []byte {
	for _, each := range reports {
		if len(each.Reason) > mostReason {
			each.Reason = each.Reason[:mostReason]
		}
	}
	data, _ := json.Marshal(reports) // texts and times
	return data
}

// DecodeReports is the inverse of EncodeReports.
func DecodeReports(data []byte) (map[types.UID]*Report, error) {
	var reports map[types.UID]*Report
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("decode the reports of Doors: %w", err)
	}
	return reports, nil
}

// Join returns the later of what two reports tell.
func (r Report) Join(other Report) Report {
	if other.Accepted.After(r.Accepted) {
		r.Accepted = other.Accepted
	}
	if other.Refused.After(r.Refused) {
		r.Refused, r.Reason = other.Refused, other.Reason
	}
	if other.KeyUsed.After(r.KeyUsed) {
		r.Key, r.KeyUsed = other.Key, other.KeyUsed
	}
	if other.Expires.After(r.Expires) {
		r.Expires = other.Expires
	}
	return r
}
