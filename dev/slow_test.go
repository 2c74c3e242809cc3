package dev

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlowStartIsReported(t *testing.T) {
	t.Parallel()
	out := &output{}
	failed := errors.New("disk full")
	require.ErrorIs(t, reportIfSlow(out, time.Millisecond, "starting NATS", func() error {
		await(t, "it is reported", func() bool { return out.String() != "" })
		return failed
	}), failed)
	require.Regexp(t, `^\S+ rouse    starting NATS\n$`, out.String())

	quick := &output{}
	require.NoError(t, reportIfSlow(quick, time.Hour, "starting NATS", func() error { return nil }))
	require.Empty(t, quick.String())
}
