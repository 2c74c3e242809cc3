package daemon

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines counts how often the deadline of reads is set.
type deadlines struct {
	net.Conn

	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func TestAReadDeadlineIsSetOnlyWhenItComesEarlier(t *testing.T) {
	t.Parallel()
	conn, d := &deadlines{}, &readDeadline{}
	soon, later := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	past := time.Unix(1, 0)
	for _, at := range []time.Time{{}, later, soon, later, {}, soon, past, past} {
		require.NoError(t, d.set(conn, at))
	}
	require.Equal(t, []time.Time{{}, later, soon, past}, conn.set)
}

func TestAReadGoesOnWhoseDeadlineIsLater(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		wanted []time.Time
		failed error
		want   bool
		set    []time.Time
	}{
		"later":              {[]time.Time{time.Unix(1, 0), later}, os.ErrDeadlineExceeded, true, []time.Time{time.Unix(1, 0), later}},
		"none any more":      {[]time.Time{time.Unix(1, 0), {}}, os.ErrDeadlineExceeded, true, []time.Time{time.Unix(1, 0), {}}},
		"passed":             {[]time.Time{time.Unix(1, 0)}, os.ErrDeadlineExceeded, false, []time.Time{time.Unix(1, 0)}},
		"for another reason": {[]time.Time{time.Unix(1, 0), later}, net.ErrClosed, false, []time.Time{time.Unix(1, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, d := &deadlines{}, &readDeadline{}
			for _, at := range tc.wanted {
				require.NoError(t, d.set(conn, at))
			}
			require.Equal(t, tc.want, d.extend(conn, tc.failed))
			require.Equal(t, tc.set, conn.set)
		})
	}
}
