// Package config merges defaults, files, the environment and flags into one [Config].
//
// Later layers override earlier ones: defaults, /etc/ingero/ingero.yaml, ./ingero.yaml (never for
// root, who would obey the owner of a directory), the file of --config, INGERO_* variables, flags.
// The parser is strict and reports errors with the location and a remedy. Errors are unknown keys,
// duplicate keys, values of the wrong kind, and files that others may write.
//
// A setting is one row of the table [Settings]. The row defines its key, variable, flag, default
// and help, also for the reference documentation. Only cli calls this package; it passes the
// values to all others.
package config
