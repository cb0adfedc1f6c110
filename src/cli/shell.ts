/**
 * For `eval`: ends the script with the code, whether or not it says `set -e`. An interactive shell only gets the code, since nobody wants
 * their terminal closed.
 */
export const exitLine = (exitCode: number): string => `case $- in *i*) (exit ${exitCode});; *) exit ${exitCode};; esac`;
