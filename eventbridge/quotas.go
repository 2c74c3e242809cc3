package eventbridge

import (
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/quota"
)

// overQuota is how a dispatcher asks for the limit of its Subscription.
type overQuota struct{ *quota.Limit }

// Over implements dispatch.Quota.
func (q overQuota) Over(msg dispatch.Message) bool {
	return q.Limit.Over(msg.Pending())
}
