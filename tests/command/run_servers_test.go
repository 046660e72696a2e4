package command

import (
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A user's password comes from the environment; nothing of it appears in the process list.
func TestRunAsAUser(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "cron", "on", ">hush", "~*", "&*", "+@all")
	url := "redis://" + srv.Addr()
	show := []string{"run", "x", "--", "sh", "-c", `tr "\0" " " < /proc/$PPID/cmdline`}
	for name, env := range map[string][]string{
		"in the URL":  {"HOLDFAST_REDIS=redis://cron:hush@" + srv.Addr()},
		"on its own":  {"HOLDFAST_REDIS=" + url, "HOLDFAST_REDIS_USER=cron", "HOLDFAST_REDIS_PASSWORD=hush"},
		"beside user": {"HOLDFAST_REDIS=redis://cron@" + srv.Addr(), "HOLDFAST_REDIS_PASSWORD=hush"},
	} {
		r := run(t, nil, env, show...)
		require.Equal(t, 0, r.code, "%s: %s", name, r.stderr)
		require.Contains(t, r.stdout, "holdfast run x")
		require.NotContains(t, r.stdout, "hush")
	}
	r := run(t, nil, []string{"HOLDFAST_REDIS=redis://cron:wrong@" + srv.Addr()}, show...)
	require.Equal(t, 69, r.code)
	require.Contains(t, r.stderr, "WRONGPASS")
	require.NotContains(t, r.stderr, "wrong@")
}

func TestRunWithTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	port := redistest.FreePort(t)
	redistest.Start(t, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert)
	env := []string{"HOLDFAST_REDIS=rediss://127.0.0.1:" + strconv.Itoa(port)}
	r := run(t, nil, env, "run", "--cacert", cert, "--cert", cert, "--key", key, "x", "--", "echo", "ran")
	require.Equal(t, "ran\n", r.stdout, r.stderr)
	require.Equal(t, 69, run(t, nil, env, "run", "x", "--", "true").code,
		"the certificate is not signed by anybody known")
	known := []string{"run", "--cert", cert, "--key", key, "x", "--", "echo", "ran"}
	require.Equal(t, 69, run(t, nil, env, known...).code, "the certificate is not trusted")
	r = run(t, nil, env, append([]string{"--insecure"}, known...)...)
	require.Equal(t, "ran\n", r.stdout, r.stderr)
	r = run(t, nil, nil, "ls", "--redis", "redis://127.0.0.1:"+strconv.Itoa(port))
	require.Equal(t, 69, r.code)
	require.Contains(t, r.stderr, "it wants TLS (rediss://)")
}

// Sentinels speak TLS as the servers do, and each server has a certificate with a name of its own: only the first one
// is called by the name in the URL.
func TestTLSOfServersThatOthersName(t *testing.T) {
	t.Parallel()
	ran := func(t *testing.T, url string, trusted ...string) {
		t.Helper()
		all, texts := filepath.Join(t.TempDir(), "all.pem"), []byte(nil)
		for _, cert := range trusted {
			text, err := os.ReadFile(cert)
			require.NoError(t, err)
			texts = append(texts, text...)
		}
		require.NoError(t, os.WriteFile(all, texts, 0o600))
		for _, args := range [][]string{{"run", "x", "--", "echo", "ran"}, {"latch", "set", "y", "1"}, {"ls"}} {
			r := run(t, nil, nil, append([]string{"--redis", url, "--cacert", all}, args...)...)
			require.Equal(t, 0, r.code, "%v: %s", args, r.stderr)
		}
	}
	t.Run("behind Sentinel", func(t *testing.T) {
		t.Parallel()
		master, its := secured(t, redistest.Start(t).Addr(), false)
		sentinel := redistest.StartSentinel(t, "set", master)
		at, theirs := secured(t, sentinel.Addr(), false, "localhost")
		_, port, err := net.SplitHostPort(at)
		require.NoError(t, err)
		ran(t, "rediss://localhost:"+port+"?master_set=set", its, theirs)
	})
	t.Run("in a cluster", func(t *testing.T) {
		t.Parallel()
		cert, key := certificate(t)
		own := strconv.Itoa(redistest.FreePort(t))
		redistest.StartCluster(t, 1, "--tls-port", own, "--tls-cluster", "yes", "--tls-auth-clients", "no",
			"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
		at, theirs := secured(t, "127.0.0.1:"+own, true, "localhost")
		_, port, err := net.SplitHostPort(at)
		require.NoError(t, err)
		ran(t, "rediss://localhost:"+port, cert, theirs)
	})
}

// Sentinels may have users and passwords of their own.
func TestSentinelsWithAPasswordOfTheirOwn(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, "set", redistest.Start(t).Addr())
	sentinel.Grant(t, "watcher", "+@all", "&*")
	sentinel.Do(t, "ACL", "SETUSER", "default", ">other", "-@all")
	url := "redis://" + sentinel.Addr() + "?master_set=set"
	unreached(t, nil, "HOLDFAST_SENTINEL_PASSWORD", "--redis", url)
	env := []string{"HOLDFAST_SENTINEL_USER=watcher", "HOLDFAST_SENTINEL_PASSWORD=" + redistest.Password}
	for _, args := range [][]string{{"run", "x", "--", "true"}, {"latch", "set", "y", "1"}, {"ls"}} {
		r := run(t, nil, env, append([]string{"--redis", url}, args...)...)
		require.Equal(t, 0, r.code, "%v: %s", args, r.stderr)
	}
}

// secured is an address where TLS is spoken for a server that speaks it or not, with the file of its certificate, which
// is for the names, or for 127.0.0.1 without any.
func secured(t *testing.T, server string, speaks bool, names ...string) (addr, cert string) {
	t.Helper()
	cert, key := certificate(t, names...)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	front, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	var passing sync.WaitGroup
	t.Cleanup(func() {
		_ = front.Close()
		passing.Wait()
	})
	passing.Go(func() {
		for {
			in, err := front.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			if speaks {
				out = tls.Client(out, &tls.Config{InsecureSkipVerify: true})
			}
			for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
				passing.Go(func() {
					_, _ = io.Copy(to, from)
					_, _ = to.Close(), from.Close()
				})
			}
		}
	})
	return front.Addr().String(), cert
}

// A server without TLS answers nothing to a TLS handshake.
func TestTLSToAServerWithoutIt(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, args := range [][]string{
		{"run", "x", "--", "true"},
		{"ls"},
		{"show", "x"},
		{"wait", "x"},
		{"unlock", "--yes", "x"},
		{"latch", "count", "x"},
		{"semaphore", "count", "x"},
		{"bench"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			r := run(t, nil, []string{"HOLDFAST_REDIS=rediss://" + srv.Addr()}, args...)
			require.Equal(t, 69, r.code, r.stderr)
			require.Contains(t, r.stderr, "it does not speak TLS (redis://)")
		})
	}
}

// An address is as good as a URL.
func TestAddresses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	_, port, err := net.SplitHostPort(srv.Addr())
	require.NoError(t, err)
	for _, address := range []string{
		srv.Addr(), "localhost:" + port, "localhost:" + port + "/3",
		"default@localhost:" + port,
	} {
		for _, r := range []result{
			run(t, nil, []string{"HOLDFAST_REDIS=" + address}, "run", "x", "--", "echo", "ran"),
			run(t, nil, nil, "--redis", address, "run", "x", "--", "echo", "ran"),
		} {
			require.Equal(t, "ran\n", r.stdout, r.stderr)
		}
	}
	r := run(t, nil, nil, "--redis", "cron:secret@"+srv.Addr(), "run", "x", "--", "echo", "ran")
	require.Equal(t, 64, r.code)
	require.NotContains(t, r.stderr, "secret")
}

// A run waits for a server that is not up yet, if asked to.
func TestAServerThatComesLater(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"run", "x", "--", "true"},
		{"ls"},
		{"latch", "set", "x", "1"},
		{"bench", "--time", "0.1"},
		{"doctor", "--scan", "0"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, durable...)
			srv.Stop()
			require.Equal(t, 69, run(t, srv, nil, append(args, "--connect-timeout", "0.2")...).code)
			began := make(chan struct{})
			go func() {
				defer close(began)
				<-time.After(500 * time.Millisecond)
				srv.Restart()
			}()
			r := run(t, srv, nil, append([]string{"--connect-timeout", "20"}, args...)...)
			<-began
			require.Contains(t, []int{0, 1}, r.code, r.stderr)
		})
	}
	srv := redistest.Start(t)
	srv.Do(t, "CONFIG", "SET", "requirepass", "secret")
	began := time.Now()
	require.Equal(t, 69, run(t, srv, nil, "--connect-timeout", "20", "ls").code)
	require.Less(t, time.Since(began), 15*time.Second, "an error that will not pass by itself")
}

// Who gives the address of a replica learns why the run does not begin.
func TestRunOnAReplica(t *testing.T) {
	t.Parallel()
	srv := redistest.StartReplica(t, redistest.Start(t))
	for verb, args := range map[string][]string{"run": {"--fair"}, "lead": {"--json"}} {
		j := beginVerb(t, srv, nil, verb, append(args, "x", "--", "true")...)
		j.said("waiting for Redis: READONLY")
		j.signal(syscall.SIGTERM)
		require.Equal(t, 143, j.code())
		require.Equal(t, 1, strings.Count(j.stderr.String(), "waiting for Redis"), "it is said once")
	}
	took := kit.Stopwatch()
	require.Equal(t, 69, run(t, srv, nil, "run", "-w", "1", "x", "--", "true").code)
	require.Less(t, took(), 4*time.Second, "nothing is there to give back")
}

func TestRunOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	addrs := cluster.Addrs()
	env := []string{"HOLDFAST_REDIS=redis://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")}
	for _, flag := range []string{"--fenced", "--fair", "-s", "-x", "--permits=2"} {
		r := run(t, nil, env, "run", flag, t.Name()+flag, "--", binary, "run", flag, t.Name()+flag, "--", "echo", "ran")
		require.Equal(t, "ran\n", r.stdout, r.stderr)
		require.Equal(t, 0, r.code)
	}
	for _, args := range [][]string{{"run", "a}b", "--", "true"}, {"lead", "a}b", "--", "true"}, {"ask", "a}b"}} {
		r := run(t, nil, env, args...)
		require.Equal(t, 64, r.code, r.stderr)
		require.Contains(t, r.stderr, "cannot be used in a cluster")
	}
}

func TestRunWithSentinels(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	addrs := set.SentinelAddrs()
	query := url.Values{"master_set": {set.MasterName}, "addr": addrs[1:]}
	env := []string{"HOLDFAST_REDIS=redis://" + addrs[0] + "?" + query.Encode()}
	j := beginWith(t, nil, env, "x", "--", "sh", "-c", "echo ready; read go")
	j.readies(1)
	require.Equal(t, int64(1), set.Master().Int(t, "EXISTS", "x"))
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 1, j.code())
}

// The replies to an attempt are lost until it is given up, so nobody knows whether it has the lock.
func TestRunDoesNotKnow(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	p.On(proxy.Command("EVALSHA", "EVAL").With("x"), proxy.DropReply, proxy.EveryTime)
	r := run(t, nil, []string{"HOLDFAST_REDIS=redis://" + p.Addr()}, "run", "-n", "--lease", "1s", "x", "--",
		"echo", "ran")
	require.Equal(t, 75, r.code, r.stderr)
	require.Empty(t, r.stdout)
}
