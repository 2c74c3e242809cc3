package git

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/rouse-run/rouse/internal/testing/gittest"
)

const passphrase = "correct horse"

// encrypted is an OpenSSH key that is decrypted by passphrase. Encrypting takes as long as decrypting.
var encrypted = sync.OnceValues(func() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
})

// costly is a key with the given number of rounds, which cannot be decrypted.
func costly(rounds uint32) []byte {
	return inPEM(pemOpenSSH, append([]byte("openssh-key-v1\x00"), ssh.Marshal(envelope{
		Cipher: "aes256-ctr", KDF: "bcrypt", Options: bcryptOptions(rounds), Keys: 1, Private: make([]byte, 256),
	})...))
}

func bcryptOptions(rounds uint32) string {
	return string(ssh.Marshal(struct {
		Salt   string
		Rounds uint32
	}{"0123456789abcdef", rounds}))
}

// oversized is a consistent RSA key made of numbers that are not primes, which would take long to find.
func oversized(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	e, one := big.NewInt(65537), big.NewInt(1)
	half := func() (number, less *big.Int) {
		for {
			text := make([]byte, bits/16)
			_, _ = rand.Read(text)
			text[0], text[len(text)-1] = text[0]|0xC0, text[len(text)-1]|1
			number = new(big.Int).SetBytes(text)
			less = new(big.Int).Sub(number, one)
			if new(big.Int).GCD(nil, nil, e, less).Cmp(one) == 0 {
				return number, less
			}
		}
	}
	p, lessP := half()
	q, lessQ := half()
	key := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 65537},
		D:         new(big.Int).ModInverse(e, new(big.Int).Mul(lessP, lessQ)), Primes: []*big.Int{p, q},
	}
	key.Precomputed = rsa.PrecomputedValues{
		Dp: new(big.Int).Mod(key.D, lessP), Dq: new(big.Int).Mod(key.D, lessQ), Qinv: new(big.Int).ModInverse(q, p),
	}
	if key.Precomputed.Qinv == nil {
		return oversized(t, bits)
	}
	return key
}

func pkcs1(t testing.TB, key *rsa.PrivateKey, e *big.Int) []byte {
	t.Helper()
	der, err := asn1.Marshal(struct {
		Version                         int
		N, E, D, P, Q, DP, DQ, Inverted *big.Int
	}{0, key.N, e, key.D, key.Primes[0], key.Primes[1], key.Precomputed.Dp, key.Precomputed.Dq, key.Precomputed.Qinv})
	require.NoError(t, err)
	return der
}

func pkcs8(t *testing.T, inside []byte) []byte {
	t.Helper()
	der, err := asn1.Marshal(struct {
		Version   int
		Algorithm struct {
			ID         asn1.ObjectIdentifier
			Parameters asn1.RawValue
		}
		Key []byte
	}{Algorithm: struct {
		ID         asn1.ObjectIdentifier
		Parameters asn1.RawValue
	}{oidRSA, asn1.NullRawValue}, Key: inside})
	require.NoError(t, err)
	return der
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// openSSH encodes an RSA key as ssh-keygen does. x/crypto/ssh encodes only keys that crypto/rsa accepts.
func openSSH(key *rsa.PrivateKey, e *big.Int, kdf, options string) []byte {
	public := ssh.Marshal(struct {
		Type string
		E, N *big.Int
	}{ssh.KeyAlgoRSA, e, key.N})
	private := ssh.Marshal(struct {
		Check1, Check2         uint32
		Type                   string
		N, E, D, Inverse, P, Q *big.Int
		Comment                string
	}{1, 1, ssh.KeyAlgoRSA, key.N, e, key.D, key.Precomputed.Qinv, key.Primes[0], key.Primes[1], ""})
	cipher := "none"
	if kdf != cipher {
		cipher = "aes256-ctr"
	}
	return inPEM(pemOpenSSH, append([]byte("openssh-key-v1\x00"), ssh.Marshal(envelope{
		Cipher: cipher, KDF: kdf, Options: options, Keys: 1, Public: public, Private: private,
	})...))
}

func legacy(t *testing.T, kind string, der []byte) []byte {
	t.Helper()
	block, err := x509.EncryptPEMBlock(rand.Reader, kind, der, []byte(passphrase), x509.PEMCipherAES256) //nolint:staticcheck // a form in which keys still are
	require.NoError(t, err)
	return pem.EncodeToMemory(block)
}

func secretOf(key []byte, password string) map[string][]byte {
	data := map[string][]byte{"key": key}
	if password != "" {
		data["password"] = []byte(password)
	}
	return data
}

func TestExpensiveSSHKeyIsRejectedBeforeAnyComputation(t *testing.T) {
	t.Parallel()
	large, huge := oversized(t, 16384), oversized(t, 65536)
	e, odd := big.NewInt(65537), new(big.Int).SetBit(big.NewInt(1), 40, 1)
	options := bcryptOptions(16)
	for name, tc := range map[string]struct {
		key      []byte
		password string
		want     string
	}{
		"2,000 rounds of bcrypt":             {costly(2000), passphrase, "'key' is not a usable private key: it takes 2000 rounds of bcrypt to decrypt, and at most 128 are made. Encrypt it again by ssh-keygen -p -a 24"},
		"rounds without an end":              {costly(1<<32 - 1), passphrase, "it takes 4294967295 rounds"},
		"64 kbit":                            {inPEM(pemPKCS1, pkcs1(t, huge, e)), "", "'key' has 5"},
		"16 kbit in PKCS#1":                  {inPEM(pemPKCS1, pkcs1(t, large, e)), "", "it is an RSA key of 16384 bits, and at most 8192 are taken. Make one by ssh-keygen -t ed25519, or -t rsa -b 4096"},
		"16 kbit in PKCS#8":                  {inPEM(pemPKCS8, pkcs8(t, pkcs1(t, large, e))), "", "RSA key of 16384 bits"},
		"16 kbit of OpenSSH":                 {openSSH(large, e, "none", ""), "", "RSA key of 16384 bits"},
		"16 kbit of OpenSSH, encrypted":      {openSSH(large, e, "bcrypt", options), passphrase, "RSA key of 16384 bits"},
		"an exponent of 41 bits in PKCS#1":   {inPEM(pemPKCS1, pkcs1(t, oversized(t, 2048), odd)), "", "an exponent of 41 bits, and at most 24 are taken"},
		"an exponent of 41 bits of OpenSSH":  {openSSH(oversized(t, 2048), odd, "none", ""), "", "an exponent of 41 bits"},
		"an exponent of 8 kbit in PKCS#8":    {inPEM(pemPKCS8, pkcs8(t, pkcs1(t, oversized(t, 2048), large.Primes[0]))), "", "an exponent of 8192 bits"},
		"DSA":                                {inPEM("DSA PRIVATE KEY", []byte{1}), "", `a key of type "DSA PRIVATE KEY" is not read`},
		"an unknown cipher":                  {inPEM(pemOpenSSH, append([]byte("openssh-key-v1\x00"), ssh.Marshal(envelope{Cipher: "rot13", KDF: "bcrypt", Options: options, Keys: 1})...)), passphrase, `the cipher "rot13"`},
		"another key derivation":             {openSSH(oversized(t, 2048), e, "scrypt", options), passphrase, "not encrypted by way of bcrypt"},
		"PKCS#8 encrypted":                   {inPEM("ENCRYPTED PRIVATE KEY", []byte{1}), passphrase, `a key of type "ENCRYPTED PRIVATE KEY" is not read`},
		"encrypted without passphrase":       {costly(16), "", "no 'password' is beside it"},
		"a passphrase without an encryption": {openSSH(oversized(t, 2048), e, "none", ""), passphrase, "it is not an encrypted key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := ParseSecret(AuthKey, "", secretOf(tc.key, tc.password))
			requireKind(t, Secret, err)
			require.ErrorContains(t, err, tc.want)
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
}

func TestFieldsOfASecretAreBounded(t *testing.T) {
	t.Parallel()
	private, _ := gittest.Key(t)
	large := bytes.Repeat([]byte("x"), maxKnownHosts+1)
	for field, data := range map[string]map[string][]byte{
		"key":         {"key": large},
		"password":    {"key": private, "password": large},
		"known_hosts": {"key": private, "known_hosts": large},
	} {
		_, err := ParseSecret(AuthKey, "", data)
		require.ErrorContains(t, err, "'"+field+"' has 65537 bytes, and at most ")
	}
	for field, data := range map[string]map[string][]byte{
		"username": {"username": large, "password": []byte("p")},
		"password": {"username": []byte("u"), "password": large},
	} {
		_, err := ParseSecret(AuthBasic, "", data)
		require.ErrorContains(t, err, "'"+field+"' has 65537 bytes, and at most 16384 are read")
	}
	_, err := ParseSecret(AuthKey, typeSSH, map[string][]byte{"ssh-privatekey": private, "password": large})
	require.NoError(t, err, "unused fields are allowed")
}

func TestKeysOfEveryFormAreDecryptedOnce(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	plain, _ := gittest.Key(t)
	sealed, err := encrypted()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		key      []byte
		password string
	}{
		"OpenSSH":            {plain, ""},
		"OpenSSH, encrypted": {sealed, passphrase},
		"PKCS#1":             {inPEM(pemPKCS1, x509.MarshalPKCS1PrivateKey(key)), ""},
		"PKCS#1, encrypted":  {legacy(t, pemPKCS1, x509.MarshalPKCS1PrivateKey(key)), passphrase},
		"PKCS#8":             {inPEM(pemPKCS8, pkcs8), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			credentials, err := ParseSecret(AuthKey, "", secretOf(tc.key, tc.password))
			require.NoError(t, err)
			first, err := credentials.key.open()
			require.NoError(t, err)
			again := credentials
			second, err := again.key.open()
			require.NoError(t, err)
			require.Same(t, first, second, "copies share it")
			if tc.password == "" {
				return
			}
			wrong, err := ParseSecret(AuthKey, "", secretOf(tc.key, "wrong"))
			require.NoError(t, err, "parsing a Secret must not decrypt")
			_, err = wrong.key.open()
			require.ErrorContains(t, err, "the passphrase in 'password' does not decrypt it")
		})
	}
}

// The encrypted part cannot be inspected in advance, and may differ from the public half.
func TestSSHKeyThatHidesItsSizeIsRejectedAfterDecryption(t *testing.T) {
	t.Parallel()
	credentials, err := ParseSecret(AuthKey, "", secretOf(legacy(t, pemPKCS1, pkcs1(t, oversized(t, 16384), big.NewInt(65537))), passphrase))
	require.NoError(t, err)
	_, err = credentials.key.open()
	require.ErrorContains(t, err, "RSA key of 16384 bits, and at most 8192 are taken")
}
