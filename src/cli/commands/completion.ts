import { type Command, type Flag, flagsOf } from '../command.ts';

const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

/** Made from the same table as the parser, so that it never offers a flag that does not exist. */
export const completionOf = (commands: readonly Command[]): Command => ({
  name: 'completion',
  summary: 'Print a completion script for a shell.',
  operands: [{ name: 'shell', choices: shells }],
  isOffline: true,
  examples: [
    'holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast',
    'holdfast completion zsh > ~/.zfunc/_holdfast',
    'holdfast completion fish > ~/.config/fish/completions/holdfast.fish',
  ],
  async run({ given, terminal }) {
    terminal.print(scripts[given.operand('shell') as Shell]([...commands, completionOf(commands)]));
  },
});

const wordsOf = (flags: readonly Flag[]): string => flags.map(({ name }) => `--${name}`).join(' ');

/** The words that a command takes as operands. */
const choicesOf = ({ operands = [] }: Command): readonly string[] => operands.flatMap(({ choices = [] }) => choices);

/** The first word of each command, and the second words of commands that have two. */
function groupsOf(commands: readonly Command[]): { first: string[]; groups: Map<string, string[]> } {
  const groups = new Map<string, string[]>();
  for (const { name } of commands) {
    const [group = '', word] = name.split(' ');
    if (word !== undefined) groups.set(group, [...(groups.get(group) ?? []), word]);
  }
  return { first: [...new Set(commands.map(({ name }) => name.split(' ')[0] ?? ''))], groups };
}

const choiceFlagsOf = (commands: readonly Command[]): Map<string, readonly string[]> =>
  new Map(commands.flatMap(flagsOf).flatMap(({ name, choices }) => (choices ? [[name, choices] as const] : [])));

function bash(commands: readonly Command[]): string {
  const { first, groups } = groupsOf(commands);
  const cases = commands.map((command) => {
    const choices = choicesOf(command);
    return `    '${command.name}') words='${[...choices, wordsOf(flagsOf(command))].join(' ')}' ;;`;
  });
  return `# bash completion for holdfast
_holdfast() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command='' word words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    # After -- comes a command of its own, with its own completion.
    if [[ $word == -- ]]; then
      _command_offset $((i + 1)) 2>/dev/null
      return
    fi
    [[ $word == -* ]] && continue
    if [[ -z $command ]]; then command=$word
    elif [[ $i == 2 && ' ${[...groups.keys()].join(' ')} ' == *" $command "* ]]; then command="$command $word"
    fi
  done
  case $previous in
${[...choiceFlagsOf(commands)].map(([name, choices]) => `    --${name}) COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$current")); return ;;`).join('\n')}
    --token-file) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case $command in
    '') words='${[...first, '--help', '--version'].join(' ')}' ;;
${[...groups].map(([group, words]) => `    '${group}') words='${words.join(' ')}' ;;`).join('\n')}
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _holdfast holdfast`;
}

/** Makes a text safe inside single quotes of a shell. */
const quoted = (text: string): string => text.replaceAll("'", "'\\''");

function zsh(commands: readonly Command[]): string {
  const { first, groups } = groupsOf(commands);
  const flag = ({ name, value, choices, meaning }: Flag) => {
    const action =
      choices !== undefined
        ? `:${value}:(${choices.join(' ')})`
        : name === 'token-file'
          ? ':file:_files'
          : value === undefined
            ? ''
            : `:${value}:`;
    return `'--${name}[${quoted(meaning.replaceAll(/[[\]:]/g, ' '))}]${quoted(action)}'`;
  };
  const cases = commands.map((command) => {
    const choices = choicesOf(command);
    const operand = choices.length > 0 ? [`'1:${command.operands?.[0]?.name}:(${choices.join(' ')})'`] : [];
    const rest = command.runsCommand ? [`'*:::command:_normal'`] : [];
    return `    '${command.name}') _arguments ${[...flagsOf(command).map(flag), ...operand, ...rest].join(' ')} ;;`;
  });
  return `#compdef holdfast
_holdfast() {
  local command=\${words[2]}
  if (( CURRENT == 2 )); then
    compadd -- ${first.join(' ')} --help --version
    return
  fi
  case $command in
${[...groups]
  .map(
    ([group, words]) => `    ${group}) if (( CURRENT == 3 )); then compadd -- ${words.join(' ')}; return; fi
      command="$command \${words[3]}"; shift words; (( CURRENT-- )) ;;`,
  )
  .join('\n')}
  esac
  shift words; (( CURRENT-- ))
  case $command in
${cases.join('\n')}
  esac
}
compdef _holdfast holdfast`;
}

function fish(commands: readonly Command[]): string {
  const { first, groups } = groupsOf(commands);
  const flagLine = (condition: string, { name, short, value, choices, meaning }: Flag): string =>
    [
      `complete -c holdfast -n '${condition}' -l ${name}`,
      short === undefined ? '' : ` -s ${short}`,
      value === undefined ? '' : ' -r',
      choices === undefined ? '' : ` -a '${choices.join(' ')}'`,
      ` -d '${quoted(meaning)}'`,
    ].join('');
  const summaryOf = (name: string) =>
    commands.find((command) => command.name === name)?.summary ?? `Commands of ${name}`;
  return [
    '# fish completion for holdfast',
    'complete -c holdfast -f',
    ...first.map((word) => `complete -c holdfast -n __fish_use_subcommand -a ${word} -d '${quoted(summaryOf(word))}'`),
    ...[...groups].map(
      ([group, words]) =>
        `complete -c holdfast -n '__fish_seen_subcommand_from ${group}; and not __fish_seen_subcommand_from ${words.join(' ')}' -a '${words.join(' ')}'`,
    ),
    ...commands.flatMap((command) => {
      const condition = command.name
        .split(' ')
        .map((word) => `__fish_seen_subcommand_from ${word}`)
        .join('; and ');
      const choices = choicesOf(command);
      return [
        ...flagsOf(command).map((flag) => flagLine(condition, flag)),
        ...(choices.length === 0 ? [] : [`complete -c holdfast -n '${condition}' -a '${choices.join(' ')}'`]),
      ];
    }),
  ].join('\n');
}

const scripts: Readonly<Record<Shell, (commands: readonly Command[]) => string>> = { bash, zsh, fish };
