package main

import (
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/internal/doctor"
)

// doctorCommand looks for what keeps things from working.
type doctorCommand struct {
	AWS    bool   `help:"Look at the AWS account and the stack in it, not at this machine." name:"aws"`
	Stack  string `default:"${stack}"                                                        help:"Name of the stack."`
	Region string `help:"Region of AWS (default: that of the AWS settings)."`
}

// Help is what --help shows of it.
func (*doctorCommand) Help() string {
	return "It changes nothing. It ends with an error if something is wrong; what AWS should be asked for, or may not be read, is none."
}

// errIll ends a look that has found something.
var errIll = errors.New("something is wrong; each line says what to do about it")

// Run does it.
func (c *doctorCommand) Run(a *app) error {
	report, err := c.look(a)
	if err != nil {
		return err
	}
	if a.grammar.JSON {
		err = json.NewEncoder(a.out).Encode(report)
	} else {
		a.showReport(report)
	}
	if err == nil && !report.OK {
		return errIll
	}
	return err
}

func (c *doctorCommand) look(a *app) (doctor.Report, error) {
	if c.AWS {
		account, err := doctor.Open(a.ctx, c.Region)
		if err != nil {
			return doctor.Report{}, err
		}
		return doctor.AWS(a.ctx, account, c.Stack), nil
	}
	home, err := a.home()
	if err != nil {
		home = ""
	}
	settings, err := a.connection()
	return doctor.Local(a.ctx, doctor.Machine{
		Lookup: a.lookup, Environ: a.environ, Home: home, Server: settings.URL, Key: settings.Key, Trouble: err,
	}), nil
}

func (a *app) showReport(r doctor.Report) {
	wide := 0
	for _, c := range r.Checks {
		wide = max(wide, len(c.Name))
	}
	for _, c := range r.Checks {
		a.printf("%-7s  %-*s  %s\n", c.Status, wide, c.Name, c.Text)
		if c.Do != "" {
			a.printf("%-7s  %-*s  -> %s\n", "", wide, "", c.Do)
		}
	}
}
