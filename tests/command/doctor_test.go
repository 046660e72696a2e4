package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A finding is what doctor --json prints.
type finding struct{ Check, Status, Node, Found, Meaning, Fix string }

// durable are the arguments of a server that loses nothing, so that the doctor finds nothing to fix.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// examine runs the doctor and returns its findings by check. The exit code must fit them.
func examine(t testing.TB, srv *redistest.Server, env []string, args ...string) map[string][]finding {
	t.Helper()
	r := run(t, srv, env, append([]string{"doctor", "--json"}, args...)...)
	found := make(map[string][]finding)
	bad := false
	for line := range strings.Lines(r.stdout) {
		var f finding
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&f), line)
		require.Contains(t, []string{"ok", "note", "warn", "fail"}, f.Status)
		require.NotEmpty(t, f.Found)
		if f.Status == "warn" || f.Status == "fail" {
			bad = true
			require.NotEmpty(t, f.Meaning, line)
			require.NotEmpty(t, f.Fix, line)
		}
		for _, text := range []string{f.Found, f.Meaning, f.Fix} {
			require.NotContains(t, text, "%!", line)
		}
		found[f.Check] = append(found[f.Check], f)
	}
	switch {
	case r.code == 69:
		require.Equal(t, "fail", found["reach"][0].Status)
	case bad:
		require.Equal(t, 1, r.code, "%s%s", r.stdout, r.stderr)
	default:
		require.Equal(t, 0, r.code, "%s%s", r.stdout, r.stderr)
	}
	return found
}

// expect checks one finding.
func expect(t testing.TB, found map[string][]finding, check, status, text string) {
	t.Helper()
	require.NotEmpty(t, found[check], "%s: %v", check, found)
	f := found[check][0]
	assert.Equal(t, status, f.Status, "%+v", f)
	assert.Contains(t, strings.Join([]string{f.Found, f.Meaning, f.Fix}, " | "), text)
}

func TestDoctorIsContent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	found := examine(t, srv, nil)
	for check, status := range map[string]string{
		"reach": "ok", "version": "ok", "topology": "ok", "eviction": "ok", "persistence": "ok", "replicas": "note",
		"clock":   "ok",
		"latency": "ok", "scripts": "ok", "acl": "ok", "sessions": "ok", "pubsub": "ok", "connections": "ok", "ttl": "ok",
		"tokens": "ok", "waiters": "ok",
	} {
		expect(t, found, check, status, "")
		delete(found, check)
	}
	require.Empty(t, found)
	require.Empty(t, srv.Keyspace(t), "it left something")

	// In a pipe each finding is a line, without control characters.
	lines := strings.Split(strings.TrimSpace(ok(t, srv, "doctor")), "\n")
	require.Len(t, lines, 16)
	for _, line := range lines {
		require.Regexp(t, `^(ok   |note )[a-z]+: [^\x00-\x1f]+$`, line)
	}
	require.Regexp(t, `(?m)^ok   version: (Redis|Valkey) \d+\.\d+`, strings.Join(lines, "\n"))
}

func TestDoctorComplainsOfSettings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args                []string
		check, status, text string
	}{
		"evicts what has a time to live": {
			[]string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"},
			"eviction", "fail",
			"CONFIG SET maxmemory-policy noeviction",
		},
		"evicts anything": {
			[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			"eviction", "fail",
			"Permits with leases never come back",
		},
		"would evict": {
			[]string{"--maxmemory-policy", "allkeys-lru"},
			"eviction", "ok",
			"with one, allkeys-lru would evict locks, or the permits",
		},
		"has a limit":        {[]string{"--maxmemory", "100mb"}, "eviction", "ok", "of 100.0 MiB"},
		"is nearly full":     {[]string{"--maxmemory", "1mb"}, "eviction", "warn", "refuses writes"},
		"writes nothing":     {nil, "persistence", "warn", "CONFIG SET appendonly yes"},
		"writes snapshots":   {[]string{"--save", "3600 1"}, "persistence", "note", "since the last snapshot"},
		"writes each second": {[]string{"--appendonly", "yes"}, "persistence", "note", "about the last second"},
		"writes at times": {
			[]string{"--appendonly", "yes", "--appendfsync", "no"}, "persistence", "note", "some 30 s",
		},
		"lacks replicas": {
			[]string{"--min-replicas-to-write", "1"}, "replicas", "fail", "CONFIG SET min-replicas-to-write 0",
		},
		"closes idle connections": {[]string{"--timeout", "1"}, "connections", "warn", "CONFIG SET timeout 0"},
		"closes them late":        {[]string{"--timeout", "300"}, "connections", "ok", ""},
		"cuts listeners off": {
			[]string{"--client-output-buffer-limit", "pubsub 64kb 32kb 10"}, "connections", "warn", "pubsub 32mb 8mb 60",
		},
		"forgets the dead": {
			[]string{"--tcp-keepalive", "0"}, "connections", "note", "CONFIG SET tcp-keepalive 300",
		},
		"has few connections": {[]string{"--maxclients", "3"}, "connections", "warn", "CONFIG SET maxclients 6"},
		"is impatient": {
			[]string{"--lua-time-limit", "50"}, "scripts", "note", "busy-reply-threshold 5000",
		},
		"has no scripts": {[]string{"--rename-command", "EVAL", "gone"}, "scripts", "fail", "rename-command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, tt.args...)
			expect(t, examine(t, srv, nil), tt.check, tt.status, tt.text)
		})
	}
}

func TestDoctorMeasures(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	p := proxy.Start(t, srv.Addr())
	asked := []string{"--redis", "redis://" + p.Addr(), "--scan", "0", "--timeout", "20s"}
	expect(t, examine(t, nil, nil, asked...), "clock", "ok", "agree within")
	for ahead, status := range map[time.Duration]string{
		4 * time.Second: "note", -2 * time.Second: "note", // until the doctor asks, some time passes
		time.Hour: "warn", -time.Hour: "warn",
	} {
		wrong := p.On(proxy.Command("TIME"),
			proxy.Answer(fmt.Sprintf("*2\r\n$10\r\n%d\r\n$1\r\n0", time.Now().Add(ahead).Unix())), proxy.EveryTime)
		expect(t, examine(t, nil, nil, asked...), "clock", status, "NTP")
		wrong.Remove()
	}
	slow := p.On(proxy.Command("TIME"), proxy.Delay(40*time.Millisecond), proxy.EveryTime)
	expect(t, examine(t, nil, nil, append(asked, "--lease", "1s")...), "latency", "warn", "A little slower")
	expect(t, examine(t, nil, nil, asked...), "latency", "ok", "the median of 20")
	slow.Remove()
	p.On(proxy.Command("TIME"), proxy.Delay(200*time.Millisecond), proxy.EveryTime)
	expect(t, examine(t, nil, nil, append(asked, "--lease", "1s")...), "latency", "fail", "holders lose their locks")
}

// These servers are too old, or in trouble.
func TestDoctorOfOtherServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command, answer, check, status, text string
	}{
		"old":            {"INFO", "+redis_version:6.0.16", "version", "fail", "Upgrade to Redis 6.2 or later"},
		"busy":           {"EVAL", "-BUSY Redis is busy running a script.", "scripts", "fail", "SCRIPT KILL"},
		"without ACL":    {"ACL", "-ERR unknown command 'ACL'", "acl", "ok", "default has all rights"},
		"without CONFIG": {"CONFIG", "-ERR unknown command 'CONFIG'", "connections", "note", "not known"},
		"without SCAN":   {"SCAN", "-ERR unknown command 'SCAN'", "ttl", "note", "not known"},
		"without INFO":   {"INFO", "-ERR unknown command 'INFO'", "topology", "ok", "the master"},
		"silent":         {"SCAN", "", "ttl", "note", "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxy.Start(t, redistest.Start(t, durable...).Addr())
			action := proxy.Stall
			if tt.answer != "" {
				action = proxy.Answer(tt.answer)
			}
			p.On(proxy.Command(tt.command), action, proxy.EveryTime)
			scan := map[bool]string{true: "200ms", false: "5s"}[tt.answer == ""]
			expect(t, examine(t, nil, nil, "--redis", "redis://"+p.Addr(), "--scan", scan), tt.check,
				tt.status, tt.text)
		})
	}
}

// A server that runs a script for long answers hardly anything but SCRIPT KILL.
func TestDoctorOfAServerThatRunsAScript(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--lua-time-limit", "100")
	ended := make(chan error)
	go func() {
		_, err := srv.Try("EVAL", "while true do end", "0")
		ended <- err
	}()
	kit.Await(t, "a busy server", func() bool {
		_, err := srv.Try("GET", "x")
		return err != nil
	})
	expect(t, examine(t, srv, nil, "--scan", "0"), "reach", "fail", "redis-cli SCRIPT KILL")
	srv.Do(t, "SCRIPT", "KILL")
	require.Error(t, kit.Within(t, kit.LongestWait, ended, "the end of the script"))
}

// Compatible and managed servers leave things out of INFO.
func TestDoctorOfAServerThatTellsLittle(t *testing.T) {
	t.Parallel()
	const told = "connected_clients:1\r\nredis_mode:standalone"
	p := proxy.Start(t, redistest.Start(t, durable...).Addr())
	p.On(proxy.Command("INFO"), proxy.Answer(fmt.Sprintf("$%d\r\n%s", len(told), told)), proxy.EveryTime)
	for name, url := range map[string]string{
		"little":   "redis://" + p.Addr(),
		"embedded": holdfasttest.NewServer(t).URL(),
	} {
		found := examine(t, nil, nil, "--redis", url)
		for _, check := range []string{"eviction", "persistence", "replicas"} {
			expect(t, found, check, "note", "is not known: the server does not tell")
		}
		for check, findings := range found {
			require.NotContains(t, []string{"warn", "fail"}, findings[0].Status, "%s: %s: %+v", name, check, findings)
		}
	}
}

// Tokens without a time to live are as they should be, until they are many.
func TestDoctorCountsTokens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	srv.Do(t, "SET", "redisson_lock_token:{ends}", "1", "EX", "1000")
	srv.Do(t, "SET", "redisson_lock_token:{stays}", "1")
	expect(t, examine(t, srv, nil), "tokens", "ok", "1 token key of fenced locks without a time to live")
	srv.Do(t, "EVAL", "for i = 1, 9999 do redis.call('set', 'redisson_lock_token:{'..i..'}', i) end", "0")
	expect(t, examine(t, srv, nil), "tokens", "note", "10000 token keys of fenced locks without a time to live, ")
	expect(t, examine(t, srv, nil), "tokens", "note", "Set TokenTTL of rlock.Options")
	require.NotContains(t, examine(t, srv, nil, "--scan", "0"), "tokens")
}

func TestDoctorFindsLocksWithoutATTL(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	hold, err := rlock.New(open(t, srv, nil), "kept", nil).Lock(t.Context())
	require.NoError(t, err)
	defer hold.Release()
	srv.Do(t, "HSET", "account", "name", "value") // this is not a lock
	srv.Do(t, "HSET", "audit", "0f8fad5b-d9cb-469f-a165-70867728950e:42", "1", "name", "value")
	srv.Do(t, "HSET", "inbox", "0f8fad5b-d9cb-469f-a165-70867728950e:42", "a message")
	expect(t, examine(t, srv, nil), "ttl", "ok", "no lock without a time to live")

	const owner = "0f8fad5b-d9cb-469f-a165-70867728950e:42"
	srv.Do(t, "HSET", "orders:1", owner, "1")
	srv.Do(t, "HSET", "orders:2", "mode", "write", owner+":write", "1")
	expect(t, examine(t, srv, nil), "ttl", "fail", "2 locks without a time to live: ")
	found := examine(t, srv, nil)["ttl"][0]
	require.Contains(t, found.Found, "orders:1")
	require.Contains(t, found.Found, "orders:2")
	require.Contains(t, found.Fix, "PEXPIRE NAME 60000: ")
	require.Contains(t, examine(t, srv, nil, "--lease", "5m")["ttl"][0].Fix, "PEXPIRE NAME 300000: ",
		"until the next renewal")
	for _, name := range []string{"3", "4", "5", "6"} {
		srv.Do(t, "HSET", name, owner, "1")
	}
	expect(t, examine(t, srv, nil), "ttl", "fail", "6 locks without a time to live: ")
	require.True(t, strings.HasSuffix(examine(t, srv, nil)["ttl"][0].Found, ", …"))

	expect(t, examine(t, srv, nil, "--scan", "1ns"), "ttl", "note", "cut short after 1ns")
	require.NotContains(t, examine(t, srv, nil, "--scan", "0"), "ttl")
}

func TestDoctorFindsWaitersThatAreGone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	l := fairlock.New(open(t, srv, nil), "kept", nil)
	hold, err := l.Lock(t.Context())
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		hold, err := l.Lock(ctx)
		if err == nil {
			err = hold.Release()
		}
		waiting <- err
	}()
	kit.Await(t, "a waiter", func() bool { return srv.Int(t, "LLEN", "redisson_lock_queue:{kept}") == 1 })
	expect(t, examine(t, srv, nil), "waiters", "ok", "no fair lock has waiters whose process is gone")
	leave()
	require.ErrorIs(t, <-waiting, context.Canceled)
	require.NoError(t, hold.Release())

	// One of Java's waiters, to whose channel nobody listens, one whose time has passed, and one of ours.
	const java, late, ours = "0f8fad5b-d9cb-469f-a165-70867728950e:1", "0f8fad5b-d9cb-469f-a165-70867728950e:2",
		"0f8fad5b-d9cb-469f-a165-70867728950e:3"
	srv.Do(t, "RPUSH", "redisson_lock_queue:{one}", java)
	srv.Do(t, "ZADD", "redisson_lock_timeout:{one}", "99999999999999", java)
	expect(t, examine(t, srv, nil), "waiters", "warn", "1 fair lock with waiters whose process is gone: one (1)")
	require.Contains(t, examine(t, srv, nil)["waiters"][0].Fix, `LREM 'redisson_lock_queue:{one}' 0 '`+java+`'`)
	subscribed(t, srv, "SUBSCRIBE", "redisson_lock__channel:{one}:"+java)
	expect(t, examine(t, srv, nil), "waiters", "ok", "")
	srv.Do(t, "RPUSH", "redisson_lock_queue:a{b}", late, ours)
	srv.Do(t, "ZADD", "redisson_lock_timeout:a{b}", "1000", late, "99999999999999", ours)
	srv.Do(t, "ZADD", "holdfast_fair_alive:a{b}", "1000", ours)
	expect(t, examine(t, srv, nil), "waiters", "warn", "1 fair lock with waiters whose process is gone: a{b} (2)")
	srv.Do(t, "RPUSH", "redisson_lock_queue:{two}", java, late)
	expect(t, examine(t, srv, nil), "waiters", "warn", "2 fair locks")

	// The fix must wake the next waiter, and must quote names for the shell.
	srv.Do(t, "FLUSHALL")
	const name = "{a}$(reboot){b}"
	srv.Do(t, "RPUSH", "redisson_lock_queue:"+name, late, java)
	srv.Do(t, "ZADD", "redisson_lock_timeout:"+name, "1000", late, "99999999999999", java)
	subscribed(t, srv, "SUBSCRIBE", "redisson_lock__channel:"+name+":"+java)
	require.True(t, strings.HasSuffix(examine(t, srv, nil)["waiters"][0].Fix,
		`: redis-cli LREM 'redisson_lock_queue:`+name+`' 0 '`+late+`' &&`+
			` redis-cli ZREM 'redisson_lock_timeout:`+name+`' '`+late+`'`+
			` && redis-cli PUBLISH 'redisson_lock__channel:`+name+`:`+java+`' 0`))
}

// The lines of locks that are not fair mend themselves: a release passes over those who are gone. So there is nothing
// to say of them.
func TestDoctorLeavesLinesAlone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	const gone = "01234567-89ab-8cde-8f01-23456789abcd:1"
	for _, line := range []string{"holdfast_line:{orders}", "holdfast_rwlock_line:{orders}"} {
		srv.Do(t, "RPUSH", line, gone+" 9500")
		srv.Do(t, "PEXPIRE", line, "60000")
	}
	for _, alive := range []string{"holdfast_line_alive:{orders}", "holdfast_rwlock_alive:{orders}"} {
		srv.Do(t, "ZADD", alive, "1000", gone)
		srv.Do(t, "PEXPIRE", alive, "60000")
	}
	found := examine(t, srv, nil)
	expect(t, found, "waiters", "ok", "")
	expect(t, found, "ttl", "ok", "")
}

func TestDoctorCalledWrongly(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"doctor now", "doctor --lease 1ms", "doctor --timeout 0s", "doctor --scan -1s", "doctor --kinds latch,door",
		"doctor --redis http://x", "doctor --redis redis://u:secret@localhost", "doctor --cacert x",
	} {
		r := run(t, nil, nil, strings.Fields(line)...)
		require.Equal(t, 64, r.code, line)
		require.Empty(t, r.stdout)
		require.NotEmpty(t, r.stderr)
	}
}

func TestDoctorCompletesKinds(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(binary, "__complete", "doctor", "--kinds", "").Output()
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(out, []byte("rlock\nfairlock\n")), "%s", out)
}
