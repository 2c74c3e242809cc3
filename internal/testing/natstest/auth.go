package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
)

// WithToken makes the server ask for a token.
func WithToken(token string) Option {
	return func(o *server.Options) { o.Authorization = token }
}

// WithNKey allows only the user who owns the public key.
func WithNKey(public string) Option {
	return func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }
}

// WithAuthorization sets users, accounts and their permissions from a configuration in nats-server's own language.
func WithAuthorization(t testing.TB, config string) Option {
	t.Helper()
	parsed := &server.Options{}
	require.NoError(t, parsed.ProcessConfigString(config), "parse the server's configuration")
	return authorized(parsed)
}

// WithAuthorizationFile does the same by a file, which may include others.
func WithAuthorizationFile(t testing.TB, file string) Option {
	t.Helper()
	parsed := &server.Options{}
	require.NoError(t, parsed.ProcessConfigFile(file), "parse the server's configuration")
	return authorized(parsed)
}

func authorized(parsed *server.Options) Option {
	return func(o *server.Options) {
		o.Users, o.Nkeys, o.Accounts, o.NoAuthUser = parsed.Users, parsed.Nkeys, parsed.Accounts, parsed.NoAuthUser
	}
}

// NewNKey makes a user's key and returns its public part and the seed.
func NewNKey(t testing.TB) (public string, seed []byte) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err = pair.PublicKey()
	require.NoError(t, err)
	seed, err = pair.Seed()
	require.NoError(t, err)
	return public, seed
}

// Operator is an operator with one account, which is kept in the server's memory.
type Operator struct {
	account     nkeys.KeyPair
	operatorJWT *jwt.OperatorClaims
	resolver    *server.MemAccResolver
	system      string
}

// NewOperator makes an operator whose account may use JetStream.
func NewOperator(t testing.TB) *Operator {
	t.Helper()
	operator, err := nkeys.CreateOperator()
	require.NoError(t, err)
	claims := jwt.NewOperatorClaims(publicKey(t, operator))
	_, err = claims.Encode(operator)
	require.NoError(t, err)
	made := &Operator{operatorJWT: claims, resolver: &server.MemAccResolver{}}
	system := made.addAccount(t, operator, func(*jwt.AccountClaims) {})
	made.system = publicKey(t, system)
	claims.SystemAccount = made.system
	made.account = made.addAccount(t, operator, func(c *jwt.AccountClaims) {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		}
	})
	return made
}

func (o *Operator) addAccount(t testing.TB, operator nkeys.KeyPair, change func(*jwt.AccountClaims)) nkeys.KeyPair {
	t.Helper()
	account, err := nkeys.CreateAccount()
	require.NoError(t, err)
	claims := jwt.NewAccountClaims(publicKey(t, account))
	change(claims)
	token, err := claims.Encode(operator)
	require.NoError(t, err)
	require.NoError(t, o.resolver.Store(publicKey(t, account), token))
	return account
}

// Option makes a server trust the operator.
func (o *Operator) Option() Option {
	return func(options *server.Options) {
		options.TrustedOperators = []*jwt.OperatorClaims{o.operatorJWT}
		options.AccountResolver = o.resolver
		options.SystemAccount = o.system
	}
}

// Credentials makes a user of the account and returns what a .creds file holds. The user is let in until lifetime is
// over; 0 is for ever.
func (o *Operator) Credentials(t testing.TB, lifetime time.Duration) []byte {
	t.Helper()
	public, seed := NewNKey(t)
	claims := jwt.NewUserClaims(public)
	if lifetime > 0 {
		claims.Expires = time.Now().Add(lifetime).Unix()
	}
	token, err := claims.Encode(o.account)
	require.NoError(t, err)
	creds, err := jwt.FormatUserConfig(token, seed)
	require.NoError(t, err, "format credentials")
	return creds
}

func publicKey(t testing.TB, pair nkeys.KeyPair) string {
	t.Helper()
	public, err := pair.PublicKey()
	require.NoError(t, err)
	return public
}
