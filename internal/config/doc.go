// Package config merges defaults, files, the environment and flags into one [Config].
//
// Later layers override earlier ones: defaults, /etc/ingero/ingero.yaml, ./ingero.yaml, the file of
// --config, INGERO_* variables, flags. Root never reads ./ingero.yaml: otherwise the owner of a
// directory could change root's settings. The parser rejects unknown keys, duplicate keys, values of
// the wrong kind, and files that other users may write. Its errors have the location and a remedy.
//
// A setting is one row of the table [Settings]. The row defines its key, variable, flag, default
// and help, also for the reference documentation. Only cli calls this package; it passes the
// values to all others.
package config
