package pauses

import (
	"bufio"
	"context"
	"database/sql"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/sqltest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

var stopped = counter(0)

// sleeper is a process that reads under a hold, is stopped, and writes as soon as it goes on.
func sleeper(args []string) {
	addr, driver, source := args[0], args[1], args[2]
	s := kit.OpenWorker(addr, time.Second)
	r := &trial{early: s, fenced: driver != ""}
	if driver == "" {
		client, err := rueidis.NewClient(kit.ClientOption(addr))
		kit.Must(err)
		r.store = redisStore(client, true)
	} else {
		db, err := sql.Open(driver, source)
		kit.Must(err)
		r.store = sqlCounters(&sqltest.Database{DB: db, Dialect: fence.PostgreSQL}, true)
	}
	ctx := context.Background()
	h, err := r.lock(s, stopped).Lock(ctx)
	kit.Must(err)
	read, err := r.read(ctx, h, stopped)
	kit.Must(err)
	worker.Say("read %d", read)
	_, err = bufio.NewReader(os.Stdin).ReadString('\n') // it is told while it is stopped
	kit.Must(err)
	err = r.write(ctx, h, stopped, read+1)
	if !refused(err) {
		kit.Must(err)
	}
	worker.Say("wrote %t", err == nil)
}

// These holders are stopped by the system for longer than their lease, and nobody tells them.
func TestStoppedProcessesLoseNoWrite(t *testing.T) {
	t.Parallel()
	const stops = 3
	for name, driver := range map[string]string{"Redis": "", "PostgreSQL": "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			r := &trial{
				began: time.Now(), fenced: driver != "",
				late: kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 9 * time.Second}),
			}
			source := ""
			if driver == "" {
				r.store = redisStore(kit.NewClient(t, srv.Addr()), true)
			} else {
				db := sqltest.Start(t, fence.PostgreSQL)
				r.store, source = sqlStore(t, db, true), db.Source
			}
			for range stops {
				r.stop(t, srv.Addr(), driver, source)
			}
			require.True(t, r.right(), "%v", r.history)
			t.Logf("%d of %d late writes were refused", r.refused, stops)
		})
	}
}

// stop has a process stand still while another holder reads and writes.
func (r *trial) stop(t *testing.T, addr, driver, source string) {
	since, said := time.Since(r.began), make(chan string, 2)
	w := worker.Start(t, func(line string) { said <- line }, "sleeper", addr, driver, source)
	read, err := strconv.ParseInt(strings.TrimPrefix(kit.Within(t, time.Minute, said, "a read"), "read "), 10, 64)
	require.NoError(t, err)
	w.Pause()
	w.Tell("go on")
	h := kit.Lock(t, t.Context(), r.lock(r.late, stopped)) // when its lease is over
	began := time.Since(r.began)
	theirs, err := r.read(t.Context(), h, stopped)
	require.NoError(t, err)
	r.finish(t, 1, h, stopped, theirs, began)
	w.Resume()
	wrote := kit.Within(t, time.Minute, said, "a write")
	r.record(0, increment{stopped, read, wrote == "wrote true"}, since)
	require.NoError(t, h.Release())
}
