package demo

import (
	"fmt"
	"strings"
	"time"
)

// progress is the scene in a line.
func (p *poolStory) progress() string {
	if !p.begins {
		return fmt.Sprintf("%d of %d are ready", p.attendance.arrived, poolAll)
	}
	and := ""
	if p.owed() {
		and = fmt.Sprintf(", dead worker %d still has a permit", p.dead.worker)
	}
	return fmt.Sprintf("%d work%s, %d wait, %d of %d jobs done so far",
		p.attendance.working(), and, p.waiting(), p.attendance.done(), poolJobs)
}

// picture is the scene on a terminal: every worker, and who works.
func (p *poolStory) picture() []string {
	row := func(worker int) string {
		return p.marks(worker, func(g int) bool { return p.seats[worker-1][g].works() })
	}
	return append(append([]string{""}, p.table(row, p.state)...), "",
		fmt.Sprintf("  %4.1f s   %s works: %d   %s waits: %-2d   %d of %d jobs done so far",
			time.Since(p.begun).Seconds(), p.green("●"), p.attendance.working(), p.yellow("○"), p.waiting(),
			p.attendance.done(), poolJobs))
}

func (p *poolStory) state(worker int) string {
	switch {
	case p.away[worker] && p.owed():
		return p.red(column("killed, has a permit"))
	case p.away[worker]:
		return p.red(column(p.fates[worker]))
	case !p.begins && p.doing(arrived, worker) == poolGoroutines:
		return p.yellow(column("is ready"))
	case !p.begins:
		return column("gets ready")
	}
	var on []string
	for _, seat := range p.seats[worker-1] {
		if seat.works() {
			on = append(on, fmt.Sprint(seat.read))
		}
	}
	if len(on) == 0 {
		return column("")
	}
	return p.green(column("works on " + strings.Join(on, ", ")))
}

// works reports whether somebody is in the midst of a job.
func (s seat) works() bool { return s.does == holds || s.does == lingers }

// owed reports whether a dead worker still has a permit.
func (p *poolStory) owed() bool { return p.dead != nil && p.dead.back == 0 }

// sumUp says how it went.
func (p *poolStory) sumUp(free int) {
	a, d := p.attendance, p.dead
	p.summary("done")
	p.say(fmt.Sprintf("  at work       %d at once at the most, with %d permits", a.most(), poolPermits))
	p.say(fmt.Sprintf("  start         %d of %d were ready when the first job was begun", a.begun, poolAll))
	p.say(fmt.Sprintf("  end           %d of %d jobs were done when the latch opened", a.done(), poolJobs))
	p.say(fmt.Sprintf("  dead worker   its permit came back by itself after %s; the lease was %s", human(d.back), human(poolLease)))
	p.say(fmt.Sprintf("  permits       %d of %d are free again", free, poolPermits))
	p.losses(0)
	p.say("")
	p.say(fmt.Sprintf("Worker %d was killed in the midst of job %d. Its permit had been renewed until then, and\n"+
		"was not any more: %s after its death another worker had it. In Redisson nothing renews\n"+
		"a permit, so its lease must be longer than any job, and a dead worker keeps it so long.",
		d.worker, d.job, human(d.back)))
}
