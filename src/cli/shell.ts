/**
 * A line for `eval` that ends the script with the code, with or without `set -e`. An interactive shell only gets the
 * code as `$?`, so that the terminal stays open.
 */
export const exitLine = (exitCode: number): string => `case $- in *i*) (exit ${exitCode});; *) exit ${exitCode};; esac`;
