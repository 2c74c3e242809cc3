package git

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Bounds of a Secret's content. They are checked first, because operations with a private key cannot be interrupted.
const (
	maxField      = 16 << 10 // bytes of a key, a password or a username
	maxKnownHosts = 64 << 10 // bytes
	maxRounds     = 128      // of bcrypt; ssh-keygen takes 24
	maxRSA        = 8192     // bits
	maxExponent   = 24       // bits
)

const (
	pemOpenSSH = "OPENSSH PRIVATE KEY"
	pemPKCS1   = "RSA PRIVATE KEY"
	pemPKCS8   = "PRIVATE KEY"
	pemEC      = "EC PRIVATE KEY"
)

// privateKey is a private key of bounded cost. It is decrypted once for all copies of its Credentials.
type privateKey struct {
	block      *pem.Block
	passphrase string
	opened     atomic.Pointer[opened]
}

// opened is the result of decrypting a key.
type opened struct {
	signer ssh.Signer
	err    error
}

// readKey decrypts nothing: it reads the cost of the decryption from the key's envelope and rejects expensive keys.
func readKey(text []byte, passphrase string) (*privateKey, error) {
	// Editors and YAML may change the end of a key.
	block, _ := pem.Decode(append([]byte(strings.TrimSpace(string(text))), '\n'))
	if block == nil {
		return nil, errors.New("it is not in PEM form. Use what ssh-keygen has written, with its first and last line")
	}
	sealed, err := checkBlock(block)
	switch {
	case err != nil:
		return nil, err
	case sealed && passphrase == "":
		return nil, errors.New("it is passphrase protected, and no 'password' is beside it. Add the passphrase as 'password' to a " +
			"Secret that is not of type " + typeSSH + ", or remove it by ssh-keygen -p")
	case !sealed && passphrase != "":
		return nil, errors.New("it is not an encrypted key. Remove 'password'")
	}
	return &privateKey{block: block, passphrase: passphrase}, nil
}

// checkBlock reports whether a key is encrypted, and rejects a key that is visibly too expensive.
func checkBlock(block *pem.Block) (sealed bool, err error) {
	if x509.IsEncryptedPEMBlock(block) { //nolint:staticcheck // a form in which keys still are
		return true, checkType(block.Type)
	}
	switch block.Type {
	case pemOpenSSH:
		return checkOpenSSH(block.Bytes)
	case pemPKCS1:
		return false, checkPKCS1(block.Bytes)
	case pemPKCS8:
		return false, checkPKCS8(block.Bytes)
	default:
		return false, checkType(block.Type)
	}
}

func checkType(name string) error {
	switch name {
	case pemPKCS1, pemPKCS8, pemEC:
		return nil
	default:
		return fmt.Errorf("a key of type %.40q is not read. Make one by ssh-keygen -t ed25519", name)
	}
}

var errNoKey = errors.New("it cannot be read. Use what ssh-keygen has written")

// envelope is the outer structure of an OpenSSH key (PROTOCOL.key).
type envelope struct {
	Cipher, KDF, Options string
	Keys                 uint32
	Public, Private      []byte
	Rest                 []byte `ssh:"rest"`
}

func checkOpenSSH(text []byte) (sealed bool, err error) {
	inside, ok := strings.CutPrefix(string(text), "openssh-key-v1\x00")
	var e envelope
	if !ok || !reads([]byte(inside), &e) {
		return false, errors.New("it is not a key of OpenSSH, despite its first line. Use what ssh-keygen has written")
	}
	if err := checkPublic(e.Public); err != nil {
		return false, err
	}
	if e.KDF == "none" && e.Cipher == "none" {
		return false, checkPrivate(e.Private)
	}
	return true, checkCipher(e)
}

func checkCipher(e envelope) error {
	var options struct {
		Salt   string
		Rounds uint32
	}
	switch {
	case e.KDF != "bcrypt" || !reads([]byte(e.Options), &options):
		return errors.New("it is not encrypted by way of bcrypt. Encrypt it again by ssh-keygen -p")
	case options.Rounds > maxRounds:
		return fmt.Errorf("it takes %d rounds of bcrypt to decrypt, and at most %d are made. Encrypt it again by ssh-keygen -p -a 24",
			options.Rounds, maxRounds)
	case e.Cipher != "aes256-ctr" && e.Cipher != "aes256-cbc":
		return fmt.Errorf("it is encrypted by the cipher %.40q, which is not known. Encrypt it again by ssh-keygen -p -Z aes256-ctr", e.Cipher)
	}
	return nil
}

func reads(text []byte, into any) bool { return ssh.Unmarshal(text, into) == nil }

// checkPublic reads the public half, which is never encrypted.
func checkPublic(text []byte) error {
	var head struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	var numbers struct {
		E, N *big.Int
		Rest []byte `ssh:"rest"`
	}
	if !reads(text, &head) || head.Type != ssh.KeyAlgoRSA || !reads(head.Rest, &numbers) {
		return nil // other types have a fixed size
	}
	return checkRSA(numbers.E, numbers.N)
}

func checkPrivate(text []byte) error {
	var head struct {
		Check1, Check2 uint32
		Type           string
		Rest           []byte `ssh:"rest"`
	}
	var numbers struct {
		N, E, D, Inverse, P, Q *big.Int
		Rest                   []byte `ssh:"rest"`
	}
	if !reads(text, &head) || head.Type != ssh.KeyAlgoRSA || !reads(head.Rest, &numbers) {
		return nil
	}
	return checkRSA(numbers.E, numbers.N, numbers.D, numbers.Inverse, numbers.P, numbers.Q)
}

func checkPKCS1(der []byte) error {
	var numbers struct {
		Version       int
		N, E, D, P, Q *big.Int
		DP, DQ        *big.Int        `asn1:"optional"`
		Inverse       *big.Int        `asn1:"optional"`
		Further       []asn1.RawValue `asn1:"optional,omitempty"`
	}
	if _, err := asn1.Unmarshal(der, &numbers); err != nil {
		return errNoKey
	}
	if len(numbers.Further) > 0 {
		return errors.New("it has more than two primes, which is not read. Make one by ssh-keygen -t ed25519")
	}
	for _, number := range []*big.Int{numbers.DP, numbers.DQ, numbers.Inverse} {
		if number != nil && number.BitLen() > maxRSA {
			return tooLong(number.BitLen())
		}
	}
	return checkRSA(numbers.E, numbers.N, numbers.D, numbers.P, numbers.Q)
}

var oidRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}

func checkPKCS8(der []byte) error {
	var outside struct {
		Version   int
		Algorithm struct {
			Algorithm  asn1.ObjectIdentifier
			Parameters asn1.RawValue `asn1:"optional"`
		}
		Key []byte
	}
	if _, err := asn1.Unmarshal(der, &outside); err != nil {
		return errNoKey
	}
	if outside.Algorithm.Algorithm.Equal(oidRSA) {
		return checkPKCS1(outside.Key)
	}
	return nil
}

func checkRSA(exponent *big.Int, numbers ...*big.Int) error {
	if exponent.BitLen() > maxExponent {
		return fmt.Errorf("it is an RSA key with an exponent of %d bits, and at most %d are taken. Make one by ssh-keygen -t ed25519",
			exponent.BitLen(), maxExponent)
	}
	for _, number := range numbers {
		if number.BitLen() > maxRSA {
			return tooLong(number.BitLen())
		}
	}
	return nil
}

func tooLong(bits int) error {
	return fmt.Errorf("it is an RSA key of %d bits, and at most %d are taken. Make one by ssh-keygen -t ed25519, or -t rsa -b 4096", bits, maxRSA)
}

// unlock decrypts a key once: one key at a time, since the decryption cannot be interrupted, and in turn by owner.
func (c *Client) unlock(ctx context.Context, owner string, key *privateKey) (ssh.Signer, error) {
	if known := key.opened.Load(); known != nil {
		return known.signer, known.err
	}
	if err := c.unlocking.Acquire(ctx.Done(), owner, 1); err != nil {
		return nil, fmt.Errorf("decrypt an SSH key: %w", err)
	}
	began := time.Now()
	defer func() {
		c.unlocking.Charge(owner, int64(time.Since(began)))
		c.unlocking.Release(owner, 1)
	}()
	return key.open()
}

func (k *privateKey) open() (ssh.Signer, error) {
	if known := k.opened.Load(); known != nil {
		return known.signer, known.err
	}
	signer, err := k.decrypt()
	k.opened.Store(&opened{signer, err})
	return signer, err
}

func (k *privateKey) decrypt() (ssh.Signer, error) {
	raw, err := k.raw()
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, errors.New("the passphrase in 'password' does not decrypt it")
	}
	if err != nil {
		return nil, err
	}
	if key, ok := raw.(*rsa.PrivateKey); ok { // the encrypted key may differ from the public half
		if err := checkRSA(big.NewInt(int64(key.E)), key.N); err != nil {
			return nil, err
		}
	}
	return ssh.NewSignerFromKey(raw)
}

func (k *privateKey) raw() (any, error) {
	block := k.block
	switch {
	case k.passphrase == "":
		return ssh.ParseRawPrivateKey(pem.EncodeToMemory(block))
	case block.Type == pemOpenSSH:
		return ssh.ParseRawPrivateKeyWithPassphrase(pem.EncodeToMemory(block), []byte(k.passphrase))
	}
	der, err := x509.DecryptPEMBlock(block, []byte(k.passphrase)) //nolint:staticcheck // a form in which keys still are
	if err != nil {
		return nil, err
	}
	plain := &pem.Block{Type: block.Type, Bytes: der}
	if _, err := checkBlock(plain); err != nil && !errors.Is(err, errNoKey) {
		return nil, err
	}
	raw, err := ssh.ParseRawPrivateKey(pem.EncodeToMemory(plain))
	if err != nil { // this format does not always detect a wrong passphrase
		return nil, x509.IncorrectPasswordError
	}
	return raw, nil
}
