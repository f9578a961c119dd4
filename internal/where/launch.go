package where

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// mostLaunchers bounds a chain of launchers.
const mostLaunchers = 16

// starter describes how the command line of an interpreter or launcher leads to what it runs.
type starter struct {
	sub     []string // subcommands that run something; nil: needs none
	flags   string   // options without a value, where others have one
	values  string   // options with a value, where others have none
	pairs   string   // options with two values
	skip    int      // words before the program: a duration, a user, an image
	assigns bool     // NAME=value may come before the program
	module  string   // options that a module follows, "-m"
	code    string   // options that code follows, "-c"
	script  bool     // runs a script, not a command
	shell   bool     // its code is a command line
	valued  bool     // options have a value, except flags
}

// starters are keyed by the name of the program, or of the Python module.
var starters = map[string]*starter{
	"python":  {values: "-W -X -Q --check-hash-based-pycs", module: "-m", code: "-c", script: true},
	"bash":    {values: "-o -O +o +O --rcfile --init-file", code: "-c", script: true, shell: true},
	"node":    {values: "-r --require --import --loader", code: "-e -p --eval --print", script: true},
	"perl":    {values: "-I", code: "-e -E", script: true},
	"ruby":    {values: "-I -r", code: "-e", script: true},
	"julia":   {values: "-t --threads -p --procs -J --sysimage -L --load -C", code: "-e -E", script: true},
	"Rscript": {code: "-e", script: true},

	"env":       {values: "-u --unset -C --chdir -S --split-string", assigns: true},
	"sudo":      {values: "-u --user -g --group -h --host -p --prompt -C -D --chdir -R -T -U", assigns: true},
	"doas":      {values: "-u -C"},
	"gosu":      {skip: 1},
	"nice":      {values: "-n --adjustment"},
	"ionice":    {values: "-c --class -n --classdata"},
	"chrt":      {values: "-T --sched-runtime -P --sched-period -D --sched-deadline", skip: 1},
	"timeout":   {values: "-k --kill-after -s --signal", skip: 1},
	"taskset":   {skip: 1},
	"numactl":   {values: "-N -m -C -i -p -P --cpunodebind --membind --physcpubind --interleave --preferred"},
	"stdbuf":    {values: "-i -o -e"},
	"nohup":     {},
	"setsid":    {},
	"time":      {values: "-f --format -o --output"},
	"exec":      {values: "-a"},
	"tini":      {values: "-p -e"},
	"dumb-init": {values: "-r --rewrite"},
	"catatonit": {},
	"strace":    {values: "-e -o -p -s -u -E"},
	"xvfb-run":  {values: "-e -f -n -p -s -w"},

	"nsys":              {sub: []string{"profile", "launch", "start"}, valued: true, flags: "--help --version -V -H"},
	"ncu":               {valued: true, flags: "--help --version -f --force-overwrite --nvtx --csv --list-sets"},
	"nvprof":            {values: "-o --export-profile -f --log-file"},
	"compute-sanitizer": {values: "--tool --log-file --kernel-name"},
	"py-spy":            {sub: []string{"record"}, values: "-o --output -f --format -r --rate -d --duration"},
	"coverage":          {sub: []string{"run"}, values: "--rcfile --source --data-file --include --omit", module: "-m --module", script: true},

	"uv":         {sub: []string{"run"}, values: "-p --python --with --with-editable --with-requirements --extra --group --env-file --directory --project --index --package --index-url", module: "-m --module"},
	"uvx":        {values: "--from --with -p --python"},
	"poetry":     {sub: []string{"run"}, values: "-C --directory -P --project"},
	"pipenv":     {sub: []string{"run"}},
	"pdm":        {sub: []string{"run"}, values: "-p --project -s"},
	"rye":        {sub: []string{"run"}},
	"hatch":      {sub: []string{"run"}, values: "-e --env"},
	"pixi":       {sub: []string{"run"}, values: "-e --environment --manifest-path"},
	"conda":      {sub: []string{"run"}, values: "-n --name -p --prefix --cwd"},
	"mamba":      {sub: []string{"run"}, values: "-n --name -p --prefix --cwd"},
	"micromamba": {sub: []string{"run"}, values: "-n --name -p --prefix --cwd -r --root-prefix"},
	"apptainer":  {sub: []string{"exec"}, values: "-B --bind --env --env-file -H --home --pwd -W --workdir", skip: 1},

	"torchrun":   {valued: true, flags: "--standalone --no_python --no-python --run_path --run-path --use_env --use-env --help", module: "-m --module", script: true},
	"deepspeed":  {valued: true, flags: "--no_local_rank --no_ssh --no_ssh_check --no_python --force_multi --elastic_training --bind_cores_to_rank", module: "--module", script: true},
	"accelerate": {sub: []string{"launch"}, valued: true, flags: "--multi_gpu --cpu --tpu --use_deepspeed --use_fsdp --use_megatron_lm --use_xpu --use_tp --no_python --debug --quiet -q --same_network --dynamo_use_fullgraph --dynamo_use_dynamic --use_parallelism_config --use_mps_device", module: "-m --module", script: true},
	"mpirun":     {values: "-n -np --np -c -H --host -hosts -hostfile --hostfile -f -machinefile --machinefile -x -ppn -npernode --npernode -genvlist -envlist --map-by -map-by --bind-to -bind-to --rank-by --prefix -wdir --wdir --report-bindings-to -N --path -d --cpu-bind", pairs: "-mca --mca -gmca --gmca -pmca --pmca --prtemca --pmixmca -env -genv"},
	"srun":       {values: "-n --ntasks -N --nodes -c --cpus-per-task -p --partition -A --account -t --time -J --job-name -w --nodelist -x --exclude -G --gpus -o --output -e --error -D --chdir -q --qos -m --distribution"},
	"jsrun":      {values: "-n --nrs -a --tasks_per_rs -c --cpu_per_rs -g --gpu_per_rs -r --rs_per_host -b --bind -d --launch_distribution -E"},
	"horovodrun": {values: "-np --num-proc -H --hosts -hostfile --hostfile -p --ssh-port"},
	"ray":        {sub: []string{"submit"}, values: "--address --working-dir --runtime-env --submission-id"},
	"composer":   {valued: true, flags: "-v --verbose", module: "-m --module_mode", script: true},
	"flux":       {sub: []string{"run"}, values: "-n --ntasks -N --nodes -c -g"},
	"aprun":      {values: "-n -N -d -cc"},
}

// same maps other names to starters.
var same = map[string]string{
	"pypy": "python", "ipython": "python", "pythonw": "python", "sh": "bash", "dash": "bash", "zsh": "bash", "ksh": "bash", "ash": "bash", "nodejs": "node",
	"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun", "torch.distributed.elastic.run": "torchrun",
	"deepspeed.launcher.launch": "deepspeed", "deepspeed.launcher.runner": "deepspeed", "accelerate.commands.launch": "accelerate launch", "accelerate-launch": "accelerate launch",
	"accelerate.commands.accelerate_cli": "accelerate", "mpiexec": "mpirun", "mpiexec.hydra": "mpirun", "orterun": "mpirun", "prterun": "mpirun", "hydra_pmi_proxy": "mpirun",
	"singularity": "apptainer", "horovod.runner.launch": "horovodrun", "coverage.__main__": "coverage", "composer.cli.launcher": "composer", "nv-nsight-cu-cli": "ncu",
}

// machinery matches the workers that an interpreter starts for a program, by their code, module or
// script.
var machinery = regexp.MustCompile(`\bfrom (?:multiprocess(?:ing)?|billiard|torch\.multiprocessing)\.` +
	`|/ray/_private/workers/|^joblib\.externals\.loky\.|^multiprocessing\.(?:spawn|forkserver)|/_inductor/compile_worker/|^torch\._inductor\.compile_worker`)

// command returns the program of a command line, and whether it is such a worker.
func command(words []string, left int) (name string, worker bool) {
	if len(words) == 0 {
		return "", false
	}
	name = path.Base(words[0])
	if machinery.MatchString(words[0]) {
		return name, true
	}
	s, needsSub := starterOf(name)
	if s == nil || left == 0 {
		return name, false
	}
	run := s.run(words[1:], needsSub)
	switch {
	case run.code != "" && machinery.MatchString(strings.Join(run.rest, " ")): // a rewritten title has no quotes
		return name, true
	case run.code != "" && s.shell && !strings.ContainsAny(run.code, ";|&<>`$(){}\n"):
		return command(split(run.code), left-1)
	case run.code != "":
		return name, false
	case run.module != "":
		if machinery.MatchString(run.module) {
			return name, true
		}
		if launcher, _ := starterOf(run.module); launcher == nil || launcher == starters["python"] {
			return run.module, false
		}
		return orElse(run.module)(command(append([]string{run.module}, run.rest...), left-1))
	case len(run.rest) == 0:
		return name, false
	case machinery.MatchString(run.rest[0]):
		return name, true
	case s.script && strings.HasPrefix(run.rest[0], "/dev/"), run.rest[0] == "-":
		return name, false
	case s.script:
		return script(run.rest, left)
	}
	return command(run.rest, left-1)
}

// script returns the program of a script: its own name, unless it is a launcher too, as
// /opt/bin/torchrun is for Python.
func script(words []string, left int) (string, bool) {
	name := path.Base(words[0])
	if s, _ := starterOf(name); s != nil && !strings.Contains(name, ".") {
		return command(words, left-1)
	}
	return name, false
}

// orElse returns a function that replaces an empty name.
func orElse(name string) func(string, bool) (string, bool) {
	return func(got string, worker bool) (string, bool) {
		if got == "" {
			return name, worker
		}
		return got, worker
	}
}

// starterOf returns the starter for a name, nil if it runs no other program, and whether it needs a
// subcommand.
func starterOf(name string) (s *starter, needsSub bool) {
	if to, ok := same[name]; ok {
		of, _, whole := strings.Cut(to, " ")
		return starters[of], !whole && starters[of].sub != nil
	}
	if s = starters[name]; s == nil {
		plain := strings.TrimRight(name, "0123456789.t") // python3.13t
		if to, ok := same[plain]; ok {
			plain = to
		}
		if s = starters[plain]; s != starters["python"] {
			s = nil
		}
	}
	return s, s != nil && s.sub != nil
}

// running is what the arguments of a starter run.
type running struct {
	module, code string
	rest         []string
}

func (s *starter) run(words []string, needsSub bool) (r running) {
	skip := s.skip
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			if needsSub {
				return r
			}
			r.rest = words[i+1:]
			return r
		case s.assigns && assignment(w):
		case len(w) > 1 && (w[0] == '-' || w[0] == '+'):
			if key := s.behind(w, s.code); key != "" {
				if i+1 < len(words) {
					r.code, r.rest = words[i+1], words[i+1:]
				}
				return r
			}
			if key := s.behind(w, s.module); key != "" && i+1 < len(words) && !needsSub {
				r.module, r.rest = words[i+1], words[i+2:]
				return r
			}
			if n := s.takes(w); n > 0 && !(s.valued && i+1 < len(words) && isScript(words[i+1])) {
				i += n
			}
		case needsSub:
			if !slices.Contains(s.sub, w) && !(w == "job" && slices.Contains(s.sub, "submit")) {
				return r // a subcommand that runs nothing
			}
			needsSub = w == "job"
		case skip > 0:
			skip--
		default:
			r.rest = words[i:]
			return r
		}
	}
	return r
}

// behind returns the option that a word is, on its own or at the end of bundled short ones, "-um".
func (s *starter) behind(w, options string) string {
	for o := range strings.FieldsSeq(options) {
		if w == o || len(o) == 2 && len(w) > 2 && w[1] != '-' && s.script && !s.valued && strings.HasSuffix(w, o[1:]) && !s.glued(w) {
			return o
		}
	}
	return ""
}

// glued reports whether a word is a short option with its value: "-Wignore", "-Xfaulthandler".
func (s *starter) glued(w string) bool {
	return slices.Contains(strings.Fields(s.values), w[:2])
}

// takes returns the number of words after an option that are its values.
func (s *starter) takes(w string) int {
	values := strings.Fields(s.values)
	switch {
	case strings.Contains(w, "="):
	case s.valued && !slices.Contains(strings.Fields(s.flags), w),
		!s.valued && slices.Contains(values, w):
		return 1
	case slices.Contains(strings.Fields(s.pairs), w):
		return 2
	// Bundled short options, the last of which has a value: "-eo pipefail".
	case s.shell && w[1] != '-' && !s.glued(w) && slices.Contains(values, w[:1]+w[len(w)-1:]):
		return 1
	}
	return 0
}

// isScript reports whether a word can only be a script.
func isScript(w string) bool { return strings.HasSuffix(w, ".py") }

var assigned = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

func assignment(w string) bool { return assigned.MatchString(w) }

// split splits a line into words, as a shell does: quotes keep words together.
func split(line string) (words []string) {
	var b strings.Builder
	quote, open := byte(0), false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			open = true
		case c == ' ' || c == '\t' || c == '\n':
			if open {
				words = append(words, b.String())
				b.Reset()
			}
			open = false
		default:
			b.WriteByte(c)
			open = true
		}
	}
	if open {
		words = append(words, b.String())
	}
	return words
}
