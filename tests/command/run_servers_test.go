package command

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A user with a password, which comes from the environment; nothing of it is on the process list.
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
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	writeCertificate(t, cert, key)
	port := redistest.FreePort(t)
	redistest.Start(t, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	env := []string{"HOLDFAST_REDIS=rediss://127.0.0.1:" + strconv.Itoa(port)}
	r := run(t, nil, env, "run", "--cacert", cert, "--cert", cert, "--key", key, "x", "--", "echo", "ran")
	require.Equal(t, "ran\n", r.stdout, r.stderr)
	require.Equal(t, 69, run(t, nil, env, "run", "x", "--", "true").code, "nobody has signed that")
	known := []string{"run", "--cert", cert, "--key", key, "x", "--", "echo", "ran"}
	require.Equal(t, 69, run(t, nil, env, known...).code, "nor is it trusted")
	r = run(t, nil, env, append([]string{"--insecure"}, known...)...)
	require.Equal(t, "ran\n", r.stdout, r.stderr)
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

// The replies of an attempt are lost until it is given up: whether it has the lock is not known.
func TestRunDoesNotKnow(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	p.On(proxy.Command("EVALSHA", "EVAL").With("x"), proxy.DropReply, proxy.EveryTime)
	r := run(t, nil, []string{"HOLDFAST_REDIS=redis://" + p.Addr()}, "run", "-n", "--lease", "1s", "x", "--", "echo", "ran")
	require.Equal(t, 75, r.code, r.stderr)
	require.Empty(t, r.stdout)
}
