package flags

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// settings has a flag of each kind.
type settings struct {
	text     string
	count    int
	bytes    int64
	share    float64
	wait     time.Duration
	size     int64
	enabled  bool
	names    []string
	images   map[string]string
	service  types.NamespacedName
	unused   unused
	isUsed   bool
	problem  error
	verified int
}

// unused are settings of which a process needs only some.
type unused struct{ url string }

func (u *unused) Flags(fs *Set) { fs.String(&u.url, "url", "URL of a server").NotEmpty() }

func (s *settings) Flags(fs *Set) {
	fs.String(&s.text, "text", "json or text").OneOf("json", "text")
	fs.Int(&s.count, "count", "number of things").AtLeast(1)
	fs.Int64(&s.bytes, "bytes", "memory").Must(s.bytes%2 == 0, "be even")
	fs.Float64(&s.share, "share", "part of the whole").Between(0, 1)
	fs.Duration(&s.wait, "wait", "pause").MoreThan(0)
	fs.Size(&s.size, "size", "memory").AtLeast(0)
	fs.Bool(&s.enabled, "enabled", "whether it is on")
	fs.Strings(&s.names, "names", "names of things")
	fs.Map(&s.images, "image", "images by name")
	fs.Service(&s.service, "service", "Service as namespace/name")
	fs.Require(len(s.names) < 3, "--names: at most two, not %d", len(s.names))
	fs.Check(func() error {
		s.verified++
		return s.problem
	})
	fs.When(s.isUsed).Add(&s.unused)
}

func valid() *settings {
	return &settings{text: "json", count: 1, share: 0.5, wait: time.Second, size: 5 << 30}
}

func bind(options Options) *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(fs, options)
	return fs
}

func TestFlagsSetTheirOptionsAndDefaultToTheCurrentValues(t *testing.T) {
	t.Parallel()
	s := valid()
	fs := bind(s)
	require.Zero(t, s.verified, "binding checks nothing")
	require.Equal(t, "1s", fs.Lookup("wait").DefValue)
	require.Equal(t, "5Gi", fs.Lookup("size").DefValue)
	require.Equal(t, "pause", fs.Lookup("wait").Usage)
	require.NoError(t, fs.Parse([]string{
		"--text=text", "--count=2", "--bytes=4", "--share=1", "--wait=1m", "--size=1Mi", "--enabled", "--names=a,b",
		"--image=a=b", "--service=rouse-system/rouse-gateway", "--url=http://a",
	}))
	require.Equal(t, settings{
		text: "text", count: 2, bytes: 4, share: 1, wait: time.Minute, size: 1 << 20, enabled: true, names: []string{"a", "b"},
		images: map[string]string{"a": "b"}, service: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}, unused: unused{"http://a"},
	}, *s)
	require.NoError(t, fs.Parse([]string{"--service="}))
	require.Empty(t, s.service)
}

func TestAnErrorNamesTheFlagTheBoundAndTheValue(t *testing.T) {
	t.Parallel()
	require.NoError(t, Validate(valid()))
	for want, change := range map[string]func(*settings){
		`--text must be json or text, is "xml"`:       func(s *settings) { s.text = "xml" },
		"--count must be at least 1, is 0":            func(s *settings) { s.count = 0 },
		"--bytes must be even, is 3":                  func(s *settings) { s.bytes = 3 },
		"--share must be between 0 and 1, is 1.5":     func(s *settings) { s.share = 1.5 },
		"--share must be between 0 and 1, is NaN":     func(s *settings) { s.share = math.NaN() },
		"--wait must be more than 0s, is -1s":         func(s *settings) { s.wait = -time.Second },
		"--size must be at least 0, is -1":            func(s *settings) { s.size = -1 },
		"--names: at most two, not 3":                 func(s *settings) { s.names = []string{"a", "b", "c"} },
		"no such file":                                func(s *settings) { s.problem = errors.New("no such file") },
		"--url must not be empty":                     func(s *settings) { s.isUsed = true },
		"--count must be at least 1, is 0\nno server": func(s *settings) { s.count, s.problem = 0, errors.New("no server") },
	} {
		s := valid()
		change(s)
		require.EqualError(t, Validate(s), want)
	}
}

func TestATextThatIsNoValueIsRefusedByItsFlag(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"rouse-gateway", "/rouse-gateway", "rouse-system/", "a/b/c"} {
		require.ErrorContains(t, bind(valid()).Parse([]string{"--service=" + text}), `for "--service" flag: "`+text+`" is not namespace/name`)
	}
	require.ErrorContains(t, bind(valid()).Parse([]string{"--size=much"}), `for "--size" flag: "much" is not a size such as 500Mi`)
}
