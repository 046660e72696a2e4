package goredis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredis"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// certified is the name in the servers' certificate, which is not their address.
const certified = "redis.example"

// certificate makes a certificate that is its own authority. It returns the arguments of a server that has it, and who
// trusts it.
func certificate(t *testing.T) (args []string, trusts *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{certified},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return path
	}
	cert, secret := write("cert.pem", "CERTIFICATE", public), write("key.pem", "PRIVATE KEY", private)
	roots := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(public)
	require.NoError(t, err)
	roots.AddCert(parsed)
	return []string{
		"--tls-cert-file", cert, "--tls-key-file", secret, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no",
	}, &tls.Config{RootCAs: roots, ServerName: certified}
}

func TestTLS(t *testing.T) {
	args, trusts := certificate(t)
	port := strconv.Itoa(redistest.FreePort(t))
	redistest.Start(t, append(args, "--tls-port", port)...)
	o := &redis.UniversalOptions{Addrs: []string{net.JoinHostPort("127.0.0.1", port)}, TLSConfig: trusts}
	same(t, o)

	for config, want := range map[*tls.Config]string{
		{RootCAs: trusts.RootCAs}: "doesn't contain any IP SANs", // the name that go-redis makes of the address
		{ServerName: certified}:   "certificate signed by unknown authority",
	} {
		o.TLSConfig = config
		client, err := goredis.ClientOption(o)
		require.NoError(t, err)
		_, err = holdfast.Open(client, nil)
		require.ErrorContains(t, err, want)
	}
}

func TestTLSInACluster(t *testing.T) {
	args, trusts := certificate(t)
	port := strconv.Itoa(redistest.FreePort(t))
	redistest.StartCluster(t, 1, append(args, "--tls-port", port, "--tls-cluster", "yes")...)
	same(t, &redis.UniversalOptions{
		Addrs: []string{net.JoinHostPort("127.0.0.1", port)}, IsClusterMode: true, TLSConfig: trusts,
	})
}
