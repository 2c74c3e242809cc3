package broker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(*Options)
		wantErr string
	}{
		"the defaults are valid":      {change: func(*Options) {}},
		"several servers are valid":   {change: func(o *Options) { o.URL = "nats://a:4222, tls://b:4222" }},
		"an empty URL is refused":     {change: func(o *Options) { o.URL = "" }, wantErr: "must not be empty"},
		"a missing host is refused":   {change: func(o *Options) { o.URL = "nats://" }, wantErr: "no host"},
		"a foreign scheme is refused": {change: func(o *Options) { o.URL = "http://a" }, wantErr: `scheme "http"`},
		"a broken URL is not quoted":  {change: func(o *Options) { o.URL = "nats://u:secret@a:x" }, wantErr: "is not a URL"},
		"a certificate needs its key": {change: func(o *Options) { o.CertFile = "tls.crt" }, wantErr: "need each other"},
		"a key needs its certificate": {change: func(o *Options) { o.KeyFile = "tls.key" }, wantErr: "need each other"},
		"a user needs a password":     {change: func(o *Options) { o.User = "rouse" }, wantErr: "need each other"},
		"a password needs a user":     {change: func(o *Options) { o.PasswordFile = "password" }, wantErr: "need each other"},
		"an nkey is valid":            {change: func(o *Options) { o.NKeyFile = "seed" }},
		"two logins are refused": {
			change:  func(o *Options) { o.CredsFile, o.TokenFile = "nats.creds", "token" },
			wantErr: "--nats-creds, --nats-token-file: use one of them",
		},
		"a login beside one in the URL is refused": {
			change:  func(o *Options) { o.URL, o.NKeyFile = "nats://a,nats://u:secret@b", "seed" },
			wantErr: "--nats-nkey, user in --nats-url: use one of them",
		},
		"a certificate with a key is valid": {change: func(o *Options) { o.CertFile, o.KeyFile = "tls.crt", "tls.key" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			tc.change(&options)
			err := flags.Validate(&options)
			if tc.wantErr == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.wantErr)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestStreamOptionsValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(*StreamOptions)
		wantErr string
	}{
		"the defaults are valid":      {change: func(*StreamOptions) {}},
		"an empty name":               {change: func(o *StreamOptions) { o.Name = "" }, wantErr: "--stream-name"},
		"the dead letters' name":      {change: func(o *StreamOptions) { o.Name = DeadLetterStream }, wantErr: "--stream-name"},
		"no replica":                  {change: func(o *StreamOptions) { o.Replicas = 0 }, wantErr: "--stream-replicas"},
		"an unknown storage":          {change: func(o *StreamOptions) { o.Storage = "tape" }, wantErr: "--stream-storage"},
		"no bytes":                    {change: func(o *StreamOptions) { o.MaxBytes = 0 }, wantErr: "--stream-max-bytes"},
		"no messages":                 {change: func(o *StreamOptions) { o.MaxMsgsPerSubject = 0 }, wantErr: "--stream-max-msgs-per-subject"},
		"no duplicate window":         {change: func(o *StreamOptions) { o.DuplicateWindow = 0 }, wantErr: "--stream-duplicate-window"},
		"dead letters kept too short": {change: func(o *StreamOptions) { o.DeadLetterMaxAge = 1 }, wantErr: "--stream-dead-letter-max-age"},
		"no bytes for dead letters":   {change: func(o *StreamOptions) { o.DeadLetterMaxBytes = 0 }, wantErr: "--stream-dead-letter-max-bytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultStreamOptions()
			tc.change(&options)
			if tc.wantErr == "" {
				require.NoError(t, flags.Validate(&options))
				return
			}
			require.ErrorContains(t, flags.Validate(&options), tc.wantErr)
		})
	}
}

func TestFlagsFillTheOptions(t *testing.T) {
	t.Parallel()
	options, streams := DefaultOptions(), DefaultStreamOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Bind(fs, &options, &streams)

	require.NoError(t, fs.Parse([]string{"--nats-url=nats://there:1", "--stream-max-bytes=2Gi", "--stream-replicas=3"}))

	require.Equal(t, "nats://there:1", options.URL)
	require.Equal(t, int64(2<<30), streams.MaxBytes)
	require.Equal(t, 3, streams.Replicas)
	require.Equal(t, "700Mi", fs.Lookup("stream-max-bytes").DefValue)
}

func TestConnectProvesWhoWeAreByFiles(t *testing.T) {
	t.Parallel()
	public, seed := natstest.NewNKey(t)
	_, strangeSeed := natstest.NewNKey(t)
	operator, strangeOperator := natstest.NewOperator(t), natstest.NewOperator(t)
	authority := natstest.NewAuthority(t)
	user := natstest.WithAuthorization(t, `authorization { users = [ {user: rouse, password: secret} ] }`)
	mutual := func(o *Options) {
		o.CAFile = authority.CAFile(t)
		o.CertFile, o.KeyFile = authority.Client(t, "rouse")
	}
	for name, tc := range map[string]struct {
		server          []natstest.Option
		right, stranger func(*Options)
	}{
		"credentials": {
			server:   []natstest.Option{operator.Option()},
			right:    func(o *Options) { o.CredsFile = secret(t, operator.Credentials(t, 0)) },
			stranger: func(o *Options) { o.CredsFile = secret(t, strangeOperator.Credentials(t, 0)) },
		},
		"an nkey": {
			server:   []natstest.Option{natstest.WithNKey(public)},
			right:    func(o *Options) { o.NKeyFile = secret(t, seed) },
			stranger: func(o *Options) { o.NKeyFile = secret(t, strangeSeed) },
		},
		"a token": {
			server:   []natstest.Option{natstest.WithToken("let-me-in")},
			right:    func(o *Options) { o.TokenFile = secret(t, []byte("let-me-in\n")) },
			stranger: func(o *Options) { o.TokenFile = secret(t, []byte("open")) },
		},
		"a password": {
			server:   []natstest.Option{user},
			right:    func(o *Options) { o.User, o.PasswordFile = "rouse", secret(t, []byte("secret")) },
			stranger: func(o *Options) { o.User, o.PasswordFile = "rouse", secret(t, []byte("guess")) },
		},
		"a client certificate": {
			server:   []natstest.Option{natstest.WithTLS(t, authority, true)},
			right:    mutual,
			stranger: func(o *Options) { o.CAFile = authority.CAFile(t) },
		},
		"a server whose certificate is checked": {
			server:   []natstest.Option{natstest.WithTLS(t, authority, false)},
			right:    func(o *Options) { o.CAFile = authority.CAFile(t) },
			stranger: func(o *Options) { o.CAFile = natstest.NewAuthority(t).CAFile(t) },
		},
		"an nkey beside a client certificate": {
			server: []natstest.Option{natstest.WithTLS(t, authority, true), natstest.WithNKey(public)},
			right: func(o *Options) {
				mutual(o)
				o.NKeyFile = secret(t, seed)
			},
			stranger: mutual,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, tc.server...)
			stranger := connectWith(t, server, tc.stranger)
			right := connectWith(t, server, tc.right)
			awaitConnected(t, right)
			require.NoError(t, right.EnsureStreams(t.Context(), testStreams()))
			require.False(t, stranger.Connected())
		})
	}
}

func TestRotatedCredentialsAreReadAtTheNextConnect(t *testing.T) {
	t.Parallel()
	oldKey, oldSeed := natstest.NewNKey(t)
	newKey, newSeed := natstest.NewNKey(t)
	oldOperator, newOperator := natstest.NewOperator(t), natstest.NewOperator(t)
	oldAuthority, newAuthority := natstest.NewAuthority(t), natstest.NewAuthority(t)
	oldCA, newCA := content(t, oldAuthority.CAFile(t)), content(t, newAuthority.CAFile(t))
	for name, tc := range map[string]struct {
		before, after natstest.Option
		old, new      []byte
		use           func(o *Options, path string)
	}{
		"credentials": {
			before: oldOperator.Option(), after: newOperator.Option(),
			old: oldOperator.Credentials(t, 0), new: newOperator.Credentials(t, 0),
			use: func(o *Options, path string) { o.CredsFile = path },
		},
		"an nkey": {
			before: natstest.WithNKey(oldKey), after: natstest.WithNKey(newKey), old: oldSeed, new: newSeed,
			use: func(o *Options, path string) { o.NKeyFile = path },
		},
		"a token": {
			before: natstest.WithToken("old"), after: natstest.WithToken("new"), old: []byte("old"), new: []byte("new"),
			use: func(o *Options, path string) { o.TokenFile = path },
		},
		"a password": {
			before: natstest.WithUser("rouse", "old"), after: natstest.WithUser("rouse", "new"), old: []byte("old"), new: []byte("new"),
			use: func(o *Options, path string) { o.User, o.PasswordFile = "rouse", path },
		},
		"an authority": {
			before: natstest.WithTLS(t, oldAuthority, false), after: natstest.WithTLS(t, newAuthority, false), old: oldCA, new: newCA,
			use: func(o *Options, path string) { o.CAFile = path },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, tc.before)
			path := secret(t, tc.old)
			conn := connectWith(t, server, func(o *Options) { tc.use(o, path) })
			awaitConnected(t, conn)

			server.Stop()
			awaitDisconnected(t, conn)
			require.NoError(t, os.WriteFile(path, tc.new, 0o600))
			server.Change(tc.after)
			awaitConnected(t, conn)
		})
	}
}

func TestConnectSurvivesASecretThatIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	public, seed := natstest.NewNKey(t)
	for name, tc := range map[string]struct {
		server natstest.Option
		secret []byte
		use    func(o *Options, path string)
	}{
		"an nkey": {
			server: natstest.WithNKey(public), secret: seed, use: func(o *Options, path string) { o.NKeyFile = path },
		},
		"a token": {
			server: natstest.WithToken("t"), secret: []byte("t"), use: func(o *Options, path string) { o.TokenFile = path },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, tc.server)
			path := secret(t, tc.secret)
			conn := connectWith(t, server, func(o *Options) { tc.use(o, path) })
			awaitConnected(t, conn)

			require.NoError(t, os.Remove(path))
			server.Stop()
			awaitDisconnected(t, conn)
			server.Run()
			require.NoError(t, os.WriteFile(path, tc.secret, 0o600))
			awaitConnected(t, conn)
		})
	}
}

func TestConnectReportsSecretsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const hidden = "SUAHIDDEN"
	for name, change := range map[string]func(*Options){
		"missing credentials": func(o *Options) { o.CredsFile = "/nowhere/nats.creds" },
		"a missing nkey":      func(o *Options) { o.NKeyFile = "/nowhere/seed" },
		"a missing token":     func(o *Options) { o.TokenFile = "/nowhere/token" },
		"a missing password":  func(o *Options) { o.User, o.PasswordFile = "rouse", "/nowhere/password" },
		"an empty token":      func(o *Options) { o.TokenFile = secret(t, []byte("\n")) },
		"a seed that is none": func(o *Options) { o.NKeyFile = secret(t, []byte(hidden)) },
		"the seed of an account": func(o *Options) {
			o.NKeyFile = secret(t, []byte("SAANJIBNEKGCRUWJCPIWUXFBFJLR36FJTFKGBGKAT7AQXH2LVFNQWZJMQU"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			change(&options)
			require.NoError(t, flags.Validate(&options))
			_, err := Connect(t.Context(), options, logr.Discard())
			require.Error(t, err)
			require.NotContains(t, err.Error(), hidden)
		})
	}
}

func TestEachKindOfProcessHasAnInboxOfItsOwn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "_INBOX_rouse_eventbridge", inboxPrefix("rouse-eventbridge"))
	server := natstest.Start(t)
	conn := connectWith(t, server, func(o *Options) { o.Name = "rouse-scaler" })
	require.Regexp(t, `^_INBOX_rouse_scaler\.`, conn.nc.NewInbox())
}

func connectWith(t *testing.T, server *natstest.Server, change func(*Options)) *Conn {
	t.Helper()
	options := Options{URL: server.URL(), Name: t.Name()}
	change(&options)
	require.NoError(t, flags.Validate(&options))
	return connectAs(t, options)
}

func awaitDisconnected(t *testing.T, conn *Conn) {
	t.Helper()
	require.Eventually(t, func() bool { return !conn.Connected() }, testTimeout, moment)
}

// secret writes a file.
func secret(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	bytes, err := os.ReadFile(path)
	require.NoError(t, err)
	return bytes
}
