package jetstream

import (
	"context"

	"github.com/rouse-run/rouse/eventbridge/admin"
)

// Kyma implements admin.Store.
func (a *AdminStore) Kyma(ctx context.Context) (admin.Kyma, error) {
	settings, err := a.conn.StreamSettings(ctx, a.stream)
	if err != nil {
		return admin.Kyma{}, err
	}
	consumers, err := a.conn.Consumers(ctx, a.stream)
	if err != nil {
		return admin.Kyma{}, err
	}
	found := admin.Kyma{Stream: admin.KymaStream{
		Name: a.stream, Replicas: settings.Replicas, Storage: settings.Storage, MaxBytes: settings.MaxBytes,
		MaxMsgsPerSubject: settings.MaxMsgsPerSubject, DuplicateWindow: settings.DuplicateWindow.String(), Retention: settings.Retention,
		Discard: settings.Discard, DropsOldest: !settings.DiscardsNewPerSubject, Messages: settings.Messages, Bytes: settings.Bytes,
	}}
	for i := range consumers {
		if !consumers[i].OfKyma() {
			continue
		}
		found.Consumers = append(found.Consumers, admin.KymaConsumer{
			Name: consumers[i].Name, Description: consumers[i].Description, Bound: consumers[i].Received, Pending: consumers[i].Backlog.Pending,
			AckPending: consumers[i].Backlog.AckPending, Settled: consumers[i].Progress.Settled,
		})
	}
	return found, nil
}
