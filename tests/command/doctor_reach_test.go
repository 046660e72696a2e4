package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// unreached runs the doctor where it cannot connect: it must soon report that, and how to fix it.
func unreached(t testing.TB, env []string, fix string, args ...string) {
	t.Helper()
	began := time.Now()
	r := run(t, nil, env, append([]string{"doctor", "--timeout", "9s"}, args...)...) // a busy machine takes its time
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, 69, r.code, "%s%s", r.stdout, r.stderr)
	require.Regexp(t, "^fail reach: ", r.stdout)
	require.Contains(t, r.stdout, fix)
	require.Empty(t, r.stderr, "stdout should have said everything")
}

func TestDoctorSaysWhyItCannotConnect(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Grant(t, "app", "+@all", "~*", "&*")
	url := "redis://" + srv.Addr()
	unreached(t, []string{"HOLDFAST_REDIS_USER=app", "HOLDFAST_REDIS_PASSWORD=wrong"}, "Check user and password",
		"--redis", url)
	unreached(t, nil, "does not speak TLS", "--redis", "rediss://"+srv.Addr(), "--timeout", "2s")
	srv.Do(t, "ACL", "SETUSER", "default", ">secret", "-@all")
	unreached(t, nil, "It wants a password", "--redis", url)
	srv.Stop()
	unreached(t, nil, "Nobody listens there", "--redis", url)
	found := examine(t, nil, nil, "--redis", url)
	expect(t, found, "reach", "fail", "connection refused")
	require.Len(t, found, 1)
	unreached(t, nil, "No such host", "--redis", "redis://no.such.host.invalid")
}

// A server that has no room for a client hangs up, as one in protected mode does, and its reason may not arrive.
func TestAServerThatHangsUp(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "CONFIG", "SET", "maxclients", "1") // which we are
	unreached(t, nil, "maxclients", "--redis", "redis://"+srv.Addr())
	r := run(t, srv, nil, "run", "-n", "x", "--", "true")
	require.Equal(t, 69, r.code)
	require.Regexp(t, "maxclients|max number of clients", r.stderr)
}

func TestDoctorDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Pause()
	defer srv.Resume()
	unreached(t, nil, "It is silent", "--redis", "redis://"+srv.Addr(), "--timeout", "500ms")
}

func TestDoctorWithTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	port := redistest.FreePort(t)
	redistest.Start(t, append(durable, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file",
		key, "--tls-ca-cert-file", cert)...)
	url := fmt.Sprintf("rediss://127.0.0.1:%d", port)
	unreached(t, nil, "--cacert", "--redis", url)
	unreached(t, nil, "--cert and --key", "--redis", url, "--cacert", cert)
	trusted := []string{"--redis", url, "--cacert", cert, "--cert", cert, "--key", key}
	expect(t, examine(t, nil, nil, trusted...), "reach", "ok", "with TLS")
	unreached(t, nil, "--sni", append(trusted, "--sni", "other.example.com")...)
	unreached(t, nil, "rediss://", "--redis", fmt.Sprintf("redis://127.0.0.1:%d", port), "--timeout", "1s")
}

// certificate makes a self-signed one for the names, or for 127.0.0.1 without any, and returns its files.
func certificate(t testing.TB, names ...string) (cert, key string) {
	t.Helper()
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if len(names) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}
